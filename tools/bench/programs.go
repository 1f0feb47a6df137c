package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/versions/archive"
)

// The release is made of real programs, each built for several machines, since
// no single one at hand is as large as Teleport's. What decompresses them has
// no window that reaches from one to the next.
var (
	machines = []string{"amd64/v1", "arm64/v8.0", "amd64/v3", "ppc64le/power8"}
	ours     = []string{"./cmd/teleport-update"}
	commands = []string{"cmd/compile", "cmd/go", "cmd/trace", "cmd/pprof", "cmd/vet", "cmd/link", "cmd/asm"}
	tools    = []string{"github.com/goreleaser/nfpm/v2/cmd/nfpm", "honnef.co/go/tools/cmd/staticcheck"}
)

// inputs are the files that everything is measured on.
type inputs struct {
	plain, gzip, zstd    string // the release as tar, as gzip -6, as zstd
	plainN, gzipN, zstdN int64  // their bytes
}

const releaseVersion = "15.1.1"

// prepare builds the release in dir unless an earlier run did. A small one is of one
// program for one machine.
func prepare(ctx context.Context, dir string, small bool) (inputs, error) {
	in := inputs{
		plain: filepath.Join(dir, "release.tar"),
		gzip:  filepath.Join(dir, "release.tar.gz"),
		zstd:  filepath.Join(dir, "release.tar.zst"),
	}
	if _, err := os.Stat(in.zstd + ".sha256"); err != nil {
		fmt.Fprintln(os.Stderr, "building a release of real programs; this takes some minutes once")
		programs, err := buildPrograms(ctx, filepath.Join(dir, "programs"), small)
		if err != nil {
			return in, err
		}
		if err := pack(ctx, in.plain, programs); err != nil {
			return in, err
		}
		if err := compress(in.plain, in.gzip, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, 6) }); err != nil {
			return in, err
		}
		if err := compress(in.plain, in.zstd, func(w io.Writer) (io.WriteCloser, error) {
			// The window of zstd -19, the largest that the updater takes.
			return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(archive.MaxZstdWindow))
		}); err != nil {
			return in, err
		}
	}
	for _, f := range []struct {
		path string
		size *int64
	}{{in.plain, &in.plainN}, {in.gzip, &in.gzipN}, {in.zstd, &in.zstdN}} {
		info, err := os.Stat(f.path)
		if err != nil {
			return in, err
		}
		*f.size = info.Size()
	}
	return in, nil
}

func buildPrograms(ctx context.Context, dir string, small bool) ([]string, error) {
	var programs []string
	machines, commands, tools := machines, commands, tools
	if small {
		machines, commands, tools = machines[:1], nil, nil
	}
	for _, machine := range machines {
		arch, level, _ := strings.Cut(machine, "/")
		for _, list := range []struct {
			flags    []string
			packages []string
		}{{[]string{"-tags=urfave_cli_no_docs"}, ours}, {nil, commands}, {[]string{"-modfile=tools.mod"}, tools}} {
			if len(list.packages) == 0 {
				continue
			}
			out := filepath.Join(dir, strings.ReplaceAll(machine, "/", "-"))
			args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out + "/"}, list.flags...)
			cmd := exec.CommandContext(ctx, "go", append(args, list.packages...)...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
			if level != "" {
				cmd.Env = append(cmd.Env, "GO"+strings.ToUpper(arch)+"="+level)
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return nil, err
			}
			if text, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build for %s: %w\n%s", machine, err, text)
			}
		}
		built, err := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(machine, "/", "-"), "*"))
		if err != nil {
			return nil, err
		}
		programs = append(programs, built...)
	}
	return programs, nil
}

// pack writes the plain tar: the stand-in agent as teleport, so that the whole
// updater can run it, and the programs.
func pack(ctx context.Context, path string, programs []string) error {
	agent, err := host.Build(ctx, host.Agent())
	if err != nil {
		return err
	}
	teleport, err := os.CreateTemp(filepath.Dir(path), "teleport-")
	if err != nil {
		return err
	}
	defer os.Remove(teleport.Name())
	defer teleport.Close()
	data, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	if _, err := teleport.Write(data); err != nil {
		return err
	}
	if err := stamp.Append(teleport, stamp.Stamp{Version: releaseVersion, Edition: "oss", Variant: stamp.Sound, Schema: 1}); err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	if err := addFile(w, "teleport/teleport", teleport.Name()); err != nil {
		return err
	}
	for _, program := range programs {
		machine := filepath.Base(filepath.Dir(program))
		if err := addFile(w, "teleport/"+filepath.Base(program)+"-"+machine, program); err != nil {
			return err
		}
	}
	unit := []byte("[Service]\nExecStart=/usr/local/bin/teleport start\n")
	if err := w.WriteHeader(&tar.Header{Name: "teleport/examples/systemd/teleport.service", Mode: 0o644, Size: int64(len(unit))}); err != nil {
		return err
	}
	if _, err := w.Write(unit); err != nil {
		return err
	}
	return errors.Join(w.Close(), out.Close())
}

func addFile(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// compress writes a tarball and, last, its checksum.
func compress(plain, packed string, compressor func(io.Writer) (io.WriteCloser, error)) error {
	in, err := os.Open(plain)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(packed)
	if err != nil {
		return err
	}
	defer out.Close()
	hash := sha256.New()
	w, err := compressor(io.MultiWriter(out, hash))
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, in); err != nil {
		return err
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		return err
	}
	line := hex.EncodeToString(hash.Sum(nil)) + "  " + filepath.Base(packed) + "\n"
	return os.WriteFile(packed+".sha256", []byte(line), 0o644)
}
