package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"teleport-update/integration/host"
)

// withoutSystemd says why the updater cannot work here: it would take the machine's own
// systemd for its host's.
func withoutSystemd() error {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return errors.New("systemd runs here; run this in a container")
	}
	return nil
}

// findServer is teleport-find as a process, over https.
type findServer struct {
	cmd     *exec.Cmd
	url, ca string
	dir     string // with its store and socket
}

func (s *findServer) socket() string { return filepath.Join(s.dir, "admin.sock") }

// token returns a file with a join token for hosts that report.
func (s *findServer) token() (file string, err error) {
	out, err := exec.Command(s.cmd.Path, "token", "add", "bench", "--admin-socket", s.socket()).Output()
	if err != nil {
		return "", fmt.Errorf("token add: %w", err)
	}
	file = filepath.Join(s.dir, "report-token")
	return file, os.WriteFile(file, out, 0o600)
}

// heardOfOne is an error where no host has reported.
func (s *findServer) heardOfOne() error {
	out, err := exec.Command(s.cmd.Path, "hosts", "-o", "json", "--admin-socket", s.socket()).Output()
	if err == nil && !strings.Contains(string(out), `"last_seen"`) {
		err = fmt.Errorf("no host has reported: %s", out)
	}
	return err
}

// serveFind serves the release under its name at the CDN.
func (b *bench) serveFind(tarball string) (*findServer, error) {
	dir, err := os.MkdirTemp(b.work, "find-")
	if err != nil {
		return nil, err
	}
	releases := filepath.Join(dir, "releases")
	name := fmt.Sprintf("teleport-v%s-%s-%s-bin.tar.gz", releaseVersion, runtime.GOOS, runtime.GOARCH)
	if err := os.Mkdir(releases, 0o755); err != nil {
		return nil, err
	}
	for from, to := range map[string]string{tarball: name, tarball + ".sha256": name + ".sha256"} {
		if err := os.Link(from, filepath.Join(releases, to)); err != nil {
			return nil, err
		}
	}
	program, err := host.Build(b.ctx, host.Find())
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &findServer{url: "https://" + address, ca: filepath.Join(dir, "ca.pem"), dir: dir}
	s.cmd = exec.CommandContext(b.ctx, program, "serve", "--listen", address, "--self-signed", "--ca-out", s.ca,
		"--releases", releases, "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", s.socket())
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			return s, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, errors.New("teleport-find does not listen; see " + log.Name())
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *findServer) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// enable is the whole program on a host without a version: from start to the
// version linked and the configuration written.
func (b *bench) enable(name string, s *findServer) contender {
	template := s.url + "/releases/teleport-v{{ .Version }}-{{ .OS }}-{{ .Arch }}-bin.tar.gz"
	return contender{name, append(b.flags("DIR"), "enable", "--proxy", s.url, "--ca-file", s.ca, "--template", template), nil}
}

func (b *bench) flags(dir string) []string {
	return []string{
		b.updaterPath, "--data-dir", dir + "/data", "--link-dir", dir + "/bin",
		"--unit-dir", dir + "/unit", "--agent-config", dir + "/teleport.yaml",
	}
}

// updater measures the version store alone and the whole program, over https, from
// start to end.
func (b *bench) updater() error {
	if err := b.serve(); err != nil {
		return err
	}
	if err := b.peaks(map[string]contender{
		"version store alone, gzip: peak memory": b.update("update", b.server.url+"/full/release.tar.gz"),
		"version store alone, zstd: peak memory": b.update("update (zstd)", b.server.url+"/full/release.tar.zst"),
	}); err != nil {
		return err
	}
	if err := withoutSystemd(); err != nil {
		b.table.skip("the whole updater", err)
		return nil
	}
	gz, err := b.serveFind(b.in.gzip)
	if err != nil {
		return err
	}
	defer gz.stop()
	zst, err := b.serveFind(b.in.zstd)
	if err != nil {
		return err
	}
	defer zst.stop()
	enableGz, enableZst := b.enable("enable", gz), b.enable("enable (zstd)", zst)
	walls, err := b.interleave(enableGz, b.child("decompress", b.in.gzip), enableZst)
	if err != nil {
		return err
	}
	decompress := bound{took: walls["decompress"]}
	b.table.ratio("gzip over https: the whole `teleport-update enable` / decompressing", walls["enable"], none, decompress)
	b.table.ratio("zstd over https: the whole `teleport-update enable` / decompressing gzip", walls["enable (zstd)"], none, decompress)
	return b.peaks(map[string]contender{
		"gzip: peak memory of the whole updater": enableGz,
		"zstd: peak memory of the whole updater": enableZst,
	})
}

// peaks measures the peak memory of contenders, which zstd's are allowed more of.
func (b *bench) peaks(contenders map[string]contender) error {
	for _, what := range slices.Sorted(maps.Keys(contenders)) {
		kib, err := b.memories(contenders[what], 3)
		if err != nil {
			return err
		}
		goal := goalMemory
		if strings.Contains(what, "zstd") {
			goal = goalMemoryZstd
		}
		b.table.value(what, float64(kib)/1024, "MiB", goal)
	}
	return nil
}
