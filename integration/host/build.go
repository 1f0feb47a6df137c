package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"teleport-update/versions"
)

// Program is a command of this module.
type Program struct {
	Name    string // of the binary; an absolute path puts it elsewhere
	Package string // relative to the module, as in ./cmd/teleport-update
	Version string // that the build is stamped with; empty: none
	Module  string // folder of the module; empty: this one
	Overlay string // file that says which sources are others, as the go command reads it; empty: none
}

// Updater is teleport-update.
func Updater() Program { return Program{Name: "teleport-update", Package: "./cmd/teleport-update"} }

// Find is teleport-find.
func Find() Program { return Program{Name: "teleport-find", Package: "./cmd/teleport-find"} }

// Agent is the stand-in agent, without a stamp.
func Agent() Program { return Program{Name: "agent", Package: "./integration/agent"} }

var built struct {
	sync.Mutex
	paths map[Program]string
}

// Build compiles the program into build/test of the module, without cgo so that
// it runs on a host of any age, and returns its path. One process builds each
// program once; several may build at the same time.
func Build(ctx context.Context, p Program) (string, error) {
	built.Lock()
	defer built.Unlock()
	if path, ok := built.paths[p]; ok {
		return path, nil
	}
	module, err := Module()
	if err != nil {
		return "", err
	}
	// Runs with other sources than the module's keep theirs apart.
	dir := cmp.Or(os.Getenv("TEST_BUILD_DIR"), filepath.Join(module, "build", "test"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, ".lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock()
	path := p.Name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	tags, stamp := "urfave_cli_no_docs", cmp.Or(p.Version, os.Getenv("TEST_BUILD_VERSION"))
	if stamp != "" {
		tags += "," + versions.StampTag(stamp)
	}
	stamp = cmp.Or(stamp, "0.0.0-dev")
	args := []string{"build", "-trimpath", "-tags=" + tags, "-ldflags=-s -w -X main.releaseVersion=" + stamp + " -X main.version=" + stamp, "-o", path}
	if p.Overlay != "" {
		args = append(args, "-overlay="+p.Overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.Package)...)
	cmd.Dir = cmp.Or(p.Module, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", p.Package, err, out)
	}
	if built.paths == nil {
		built.paths = map[Program]string{}
	}
	built.paths[p] = path
	return path, nil
}

// Module finds the module's folder from the working directory: a test's is its
// package's.
func Module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		_, err := os.Stat(filepath.Join(d, "go.mod"))
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			return "", fmt.Errorf("find the module above %s: %w", dir, err)
		}
	}
}

// lock takes an advisory lock that the kernel drops when the process dies. The
// file stays.
func lock(path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return lockFile(f, how)
}

// lockFile takes over f.
func lockFile(f *os.File, how int) (unlock func(), err error) {
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}
