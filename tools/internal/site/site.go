// Package site is one booted host and the teleport-find that it follows, both
// real, for programs that are no tests: the demo and the benchmark of the time
// without an agent.
package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// Where the host finds its cluster.
const (
	FindAddress = "127.0.0.1:3080"
	Template    = "http://" + FindAddress + "/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"
)

// Site is the host, with the updater installed and nothing enabled.
type Site struct {
	Host *host.Host

	dir   string // releases and the admin socket
	agent string // the built stand-in
	find  *host.Server
}

// Prepare installs what hosts need and builds the programs and the root that
// hosts begin with. It needs root.
func Prepare(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("this boots a host, which needs root: run it as root, on a machine for tests")
	}
	if err := host.EnsureTools(ctx); err != nil {
		return err
	}
	for _, p := range []host.Program{host.Agent(), host.Updater(), host.Find()} {
		if _, err := host.Build(ctx, p); err != nil {
			return err
		}
	}
	_, err := host.Root(ctx, host.DefaultSuite)
	return err
}

// New boots a host, after Prepare.
func New(ctx context.Context) (_ *Site, err error) {
	s := &Site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "teleport-update-site-"); err != nil {
		return nil, err
	}
	if s.agent, err = host.Build(ctx, host.Agent()); err != nil {
		return nil, err
	}
	updater, err := host.Build(ctx, host.Updater())
	if err != nil {
		return nil, err
	}
	if s.Host, err = host.New(ctx, host.Options{}); err != nil {
		return nil, err
	}
	if err := s.Host.Boot(ctx); err != nil {
		return nil, err
	}
	if err := s.Host.CopyIn(updater, "/usr/local/sbin/teleport-update", 0o755); err != nil {
		return nil, err
	}
	return s, s.Host.WriteFile("/etc/teleport.yaml", []byte("teleport:\n  proxy_server: http://"+FindAddress+"\n"), 0o644)
}

// Close stops and removes all of it. It may be called on nil.
func (s *Site) Close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.Host != nil {
		err = s.Host.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Release publishes a release of the stand-in agent.
func (s *Site) Release(spec release.Spec) error {
	spec.Agent = s.agent
	spec.Unit.RestartDelay = time.Second
	_, _, err := release.Build(s.dir, spec)
	return err
}

// socket is where find takes commands.
func (s *Site) socket() string { return filepath.Join(s.dir, "find.sock") }

// StartFind starts teleport-find. It names the newest release until Announce.
func (s *Site) StartFind(ctx context.Context) (err error) {
	s.find, err = s.Host.ServeFind(ctx, FindAddress, "serve", "--releases", s.dir, "--admin-socket", s.socket())
	return err
}

// Announce makes find want a version.
func (s *Site) Announce(ctx context.Context, v string) error {
	program, err := host.Build(ctx, host.Find())
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, "set-version", v, "--admin-socket", s.socket()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("teleport-find set-version %s: %w\n%s%s", v, err, out, s.find.Output())
	}
	return nil
}
