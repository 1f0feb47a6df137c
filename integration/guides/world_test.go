//go:build hosts

package guides

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/signer"
	"teleport-update/internal/version"
	"teleport-update/packaging"
	"teleport-update/packaging/installscript"
)

const (
	store    = "/var/lib/teleport/versions"
	programs = "/opt/teleport-update"
	linkDir  = "/usr/local/bin"
	proxy    = "https://mytenant.teleport.sh"
	caOnHost = "/usr/local/share/ca-certificates/example.crt"
)

// hostPackages are what people have on the hosts and machines of the guides.
var hostPackages = []string{"curl", "jq", "busybox", "openssl", "cloud-init", "ansible-core"}

// names are those that the guides use for servers.
var names = []string{"mytenant.teleport.sh", "cdn.teleport.dev", "find.example.com", "mirror.example.com"}

// world is what a host can reach: a cluster's proxy that answers find, Teleport's
// CDN and a mirror, all of them one server of the test at a loopback address of
// the host.
type world struct {
	t        *testing.T
	releases string // folder of tarballs
	packages string // folder of the updater's packages
	caPEM    []byte
	config   *tls.Config
	handler  http.Handler
	outside  string // its address in the test's own network, see listensOutside

	mu     sync.Mutex
	answer find.Answer
	spoil  func(path string) bool // paths whose content is damaged on the way
	asked  []string               // "PATH?QUERY" of all requests
}

func newWorld(t *testing.T) *world { return worldWith(t, t.TempDir(), t.TempDir()) }

func worldWith(t *testing.T, releasesDir, packagesDir string) *world {
	t.Helper()
	w := &world{t: t, releases: releasesDir, packages: packagesDir}
	log := slog.New(slog.DiscardHandler)
	releases, err := files.OpenReleases(w.releases, log)
	check(t, err)
	packages, err := files.OpenPackages(w.packages, log)
	check(t, err)
	t.Cleanup(func() { releases.Close(); packages.Close() })
	script, err := installscript.For(proxy, true)
	check(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", server.New(server.Options{Answers: w, Releases: releases, Packages: packages, InstallScript: script, Log: log}))
	mux.Handle("GET /{name}", releases) // Teleport's CDN has no folders
	w.handler = mux

	authority, err := parts.NewAuthority()
	check(t, err)
	w.caPEM = authority.PEM()
	w.config, err = authority.Config(append([]string{"127.0.0.1"}, names...))
	check(t, err)
	return w
}

// Answer implements server.Answerer.
func (w *world) Answer(string, string) find.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.URL.RequestURI())
	spoilt := w.spoil != nil && w.spoil(r.URL.Path)
	w.mu.Unlock()
	if spoilt {
		io.WriteString(rw, "damaged\n")
		return
	}
	w.handler.ServeHTTP(rw, r)
}

// on makes the world reachable for a host, now and after reboots.
func (w *world) on(h *host.Test) (stop func()) {
	w.t.Helper()
	listener, err := h.Listen("tcp", "127.0.0.1:443")
	check(w.t, err)
	srv := &http.Server{Handler: w, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go srv.Serve(tls.NewListener(listener, w.config))
	w.t.Cleanup(func() { srv.Close() })
	return func() { srv.Close() }
}

// listensOutside makes the world reachable for the test itself.
func (w *world) listensOutside() {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	w.outside = listener.Addr().String()
	srv := &http.Server{Handler: w, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go srv.Serve(tls.NewListener(listener, w.config))
	w.t.Cleanup(func() { srv.Close() })
}

// wants makes find name a version, now.
func (w *world) wants(v string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = find.Answer{Version: v, Edition: version.OSS, AutoUpdate: true}
}

// waits makes find say that it is not time to go there yet.
func (w *world) waits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer.AutoUpdate = false
}

// requests returns what was asked for below a path since the last time.
func (w *world) requests(below string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := slices.DeleteFunc(slices.Clone(w.asked), func(r string) bool { return !strings.HasPrefix(r, below) })
	w.asked = nil
	return asked
}

func (w *world) spoils(spoil func(path string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoil = spoil
}

// sound builds releases without faults.
func (w *world) sound(versions ...string) {
	w.t.Helper()
	for _, v := range versions {
		buildRelease(w.t, w.releases, release.Spec{Version: v})
	}
}

func buildRelease(t *testing.T, dir string, s release.Spec) {
	t.Helper()
	s.Agent, s.Unit.RestartDelay = program(t, host.Agent()), 300*time.Millisecond
	_, _, err := release.Build(dir, s)
	check(t, err)
}

// offersPackages puts the updater's packages into the world.
func (w *world) offersPackages() {
	w.t.Helper()
	check(w.t, os.CopyFS(w.packages, os.DirFS(packages(w.t))))
}

// packages returns a folder with the updater's packages for this machine.
func packages(t *testing.T) string {
	t.Helper()
	packagesOnce.Do(func() { packagesDir, packagesErr = makePackages(t) })
	check(t, packagesErr)
	return packagesDir
}

var (
	packagesOnce sync.Once
	packagesDir  string
	packagesErr  error
)

// guidesRepository is the folder of the repository that has them.
var guidesRepository = filepath.Join(module, "build", "test", "guides-repository")

// makePackages builds the packages, and signs and publishes them with a key that is gone afterwards.
func makePackages(t *testing.T) (dir string, err error) {
	dir = filepath.Join(module, "build", "test", "guides-packages")
	for _, old := range []string{dir, guidesRepository} {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	if err := buildPackages(t.Context(), dir); err != nil {
		return "", err
	}
	key, err := signer.New(module)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, key.Close()) }()
	publish := key.Publish("--packages", dir, "--to", filepath.Join(guidesRepository, "served"), "--url", "https://find.example.com")
	if out, err := publish.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
}

func buildPackages(ctx context.Context, dir string) error {
	_, err := packaging.Build(ctx, packaging.Options{
		Module: module, Out: dir, Version: "1.2.3", Date: time.Unix(1700000000, 0),
		Arch: []string{runtime.GOARCH}, Formats: []string{"deb", "rpm", "program"}, Programs: []string{"teleport-update", "teleport-find"},
	})
	return err
}

// site is a host that knows the world's names and trusts its CA.
type site struct {
	*host.Test
	*world
	t *testing.T
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return siteIn(t, newWorld(t))
}

func siteIn(t *testing.T, w *world) *site {
	t.Helper()
	return siteOn(t, w, host.Options{Packages: hostPackages})
}

func siteOn(t *testing.T, w *world, o host.Options) *site {
	t.Helper()
	h := host.ForTest(t, o)
	s := &site{Test: h, world: w, t: t}
	s.world.on(h)
	s.introduce(h)
	h.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
	return s
}

// introduce makes a running host know the names and trust the CA.
func (w *world) introduce(h *host.Test) {
	w.t.Helper()
	h.Write("/etc/hosts", hostsFile)
	h.Write(caOnHost, string(w.caPEM))
	h.Must("update-ca-certificates")
	// Ticks come when the test says so.
	h.Write("/etc/systemd/system/teleport-update.timer.d/50-never.conf", "[Timer]\nOnCalendar=\nOnCalendar=2099-01-01\n")
}

var hostsFile = "127.0.0.1 localhost " + strings.Join(names, " ") + "\n"

// sh runs a script as a person would paste it.
func (s *site) sh(script string) host.Result {
	s.t.Helper()
	return s.Try("sh", "-c", script)
}

// mustSh is sh for a script that has to succeed; it returns both outputs.
func (s *site) mustSh(script string) string {
	s.t.Helper()
	r := s.sh(script)
	if r.Code != 0 {
		s.t.Fatalf("exit code %d of\n%s\n%s%s", r.Code, script, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

// runs waits until the agent serves as a version, from the updater's folder.
func runs(t *testing.T, h *host.Test, v string) {
	t.Helper()
	want := programs + "/" + v + "/bin/teleport"
	host.Wait(t, 20*time.Second, func() error {
		if got := h.MainExecutable("teleport"); got != want {
			return fmt.Errorf("the agent executes %q; want %s", got, want)
		}
		return nil
	})
	if got := h.Link(linkDir + "/teleport"); got != want {
		t.Errorf("%s/teleport leads to %q; want %s", linkDir, got, want)
	}
}

func program(t *testing.T, p host.Program) string {
	t.Helper()
	path, err := host.Build(t.Context(), p)
	check(t, err)
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
