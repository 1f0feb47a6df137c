// Package fleet is one find server and the hosts that it steers: booted hosts with a network each, whose
// updaters report, and the real server with its store, built with a clock that whoever
// drives the fleet sets. Days of a rollout pass in seconds, and nothing moves by
// itself: hosts look when they are told to.
//
// It is for tests and for the demo. Close leaves nothing behind.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

const (
	// Address is where each host finds its cluster, and where the server listens in
	// its own network.
	Address = "127.0.0.1:3080"
	// Template is where the releases are.
	Template = "http://" + Address + "/releases/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"
	// Poll is how often hosts look.
	Poll = 10 * time.Minute
)

// Begin is when a fleet's clock begins: a Monday, at noon.
var Begin = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// Fleet is the server and its hosts.
type Fleet struct {
	// Dir has the releases, the store and what else the server keeps.
	Dir   string
	Hosts []*Host

	network *host.Host // the server's: a host that is never booted
	server  *host.Server
	agent   string // the built stand-in
	client  string // the shipped teleport-find, which runs commands
	now     time.Time
}

// Programs are what a fleet is made of, beside the server.
func Programs() []host.Program {
	return []host.Program{host.Agent(), host.Updater(), host.Find()}
}

// BuildServer returns the path of teleport-find with the clock of the file clock.go.txt.
func BuildServer(ctx context.Context) (string, error) {
	module, err := host.Module()
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(module, "build", "test", "fleet-clock.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(module, "cmd", "teleport-find", "clock.go"): filepath.Join(module, "integration", "fleet", "clock.go.txt"),
	}})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(overlay), 0o755); err != nil {
		return "", err
	}
	// Other tests read it at this moment: it is whole at all times.
	if now, err := os.ReadFile(overlay); err != nil || !bytes.Equal(now, data) {
		mine, err := os.CreateTemp(filepath.Dir(overlay), "fleet-clock-")
		if err != nil {
			return "", err
		}
		_, err = mine.Write(data)
		if err = errors.Join(err, mine.Close(), os.Rename(mine.Name(), overlay)); err != nil {
			return "", err
		}
	}
	return host.Build(ctx, host.Program{Name: "teleport-find-of-a-fleet", Package: "./cmd/teleport-find", Overlay: overlay})
}

// New starts a server without hosts. It needs root and what host.EnsureTools installs.
func New(ctx context.Context) (*Fleet, error) { return NewAt(ctx, Begin) }

// NewAt is New with another time at which the server's clock begins.
func NewAt(ctx context.Context, begin time.Time) (_ *Fleet, err error) {
	f := &Fleet{now: begin}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.agent, err = host.Build(ctx, host.Agent()); err != nil {
		return nil, err
	}
	if f.client, err = host.Build(ctx, host.Find()); err != nil {
		return nil, err
	}
	if f.Dir, err = os.MkdirTemp("", "teleport-update-fleet-"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.path("releases"), 0o755); err != nil {
		return nil, err
	}
	if f.network, err = host.New(ctx, host.Options{Plain: true}); err != nil {
		return nil, err
	}
	return f, f.Start(ctx)
}

// Close stops and removes all of it. It may be called on nil, and more than once.
func (f *Fleet) Close() error {
	if f == nil {
		return nil
	}
	var errs []error
	for _, h := range f.Hosts {
		errs = append(errs, h.Close())
	}
	if f.network != nil {
		errs = append(errs, f.network.Close())
	}
	if f.Dir != "" {
		errs = append(errs, os.RemoveAll(f.Dir))
	}
	return errors.Join(errs...)
}

func (f *Fleet) path(name string) string { return filepath.Join(f.Dir, name) }

// Start starts the server.
func (f *Fleet) Start(ctx context.Context) error {
	path, err := BuildServer(ctx)
	if err != nil {
		return err
	}
	if err := f.writeClock(); err != nil {
		return err
	}
	f.server, err = f.network.Serve("env", "FLEET_CLOCK="+f.path("clock"), path, "serve", "--listen", Address, "--releases", f.path("releases"),
		"--store", filepath.Join(f.path("store"), "store.db"), "--admin-socket", f.path("admin.sock"))
	if err != nil {
		return err
	}
	return f.network.AwaitListening(ctx, f.server, Address)
}

// Kill ends the server at once, as kill -9 does.
func (f *Fleet) Kill() { f.server.Stop() }

// ServerLog is what the server has written since it was started.
func (f *Fleet) ServerLog() string { return f.server.Output() }

// Find runs a command of teleport-find's at the server, and returns what it prints.
func (f *Fleet) Find(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.client, args...)
	cmd.Env = append(cmd.Environ(), "TELEPORT_FIND_ADMIN_SOCKET="+f.path("admin.sock"))
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("teleport-find %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

// Status is how the rollout does.
func (f *Fleet) Status(ctx context.Context) (o adminapi.Overview, err error) {
	out, err := f.Find(ctx, "", "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &o)
	}
	return o, err
}

// Release publishes a release of the stand-in agent.
func (f *Fleet) Release(spec release.Spec) error {
	spec.Agent = f.agent
	// Rollbacks wait for the delay.
	spec.Unit.RestartDelay = 300 * time.Millisecond
	_, _, err := release.Build(f.path("releases"), spec)
	return err
}

// Now is the server's time.
func (f *Fleet) Now() time.Time { return f.now }

func (f *Fleet) writeClock() error {
	name := f.path("clock")
	if err := os.WriteFile(name+".new", []byte(f.now.Format(time.RFC3339Nano)), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Jump sets the server's time, while no host reports: what lies between is a time in which all
// hosts are silent.
func (f *Fleet) Jump(to time.Time) error {
	if to.Before(f.now) {
		return fmt.Errorf("time goes forward, and not from %v to %v", f.now, to)
	}
	f.now = to
	return f.writeClock()
}

// Settle has some seconds pass and returns when the server's engine has looked since, at all that
// hosts have said before. Between two settings of the clock it does not look.
func (f *Fleet) Settle(ctx context.Context) error {
	// The engine takes one step in one look: a group that is done lets the next one start in the next.
	for range 3 {
		if err := f.Jump(f.now.Add(time.Second)); err != nil {
			return err
		}
		if err := f.looked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// looked returns when the engine has looked at this time.
func (f *Fleet) looked(ctx context.Context) error {
	for deadline := time.Now().Add(host.Patience); ; time.Sleep(10 * time.Millisecond) {
		o, err := f.Status(ctx)
		if err == nil && !o.Server.LastTick.Before(f.now) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the engine does not look: %+v, %w\n%s", o.Server, err, f.ServerLog())
		}
	}
}

// Pass lets time go by, in which all hosts look as often as their timers would have them, and returns what became
// of the last look of each. Hosts that are off do not look.
func (f *Fleet) Pass(ctx context.Context, d time.Duration) ([]int, error) {
	var codes []int
	for end := f.now.Add(d); ; {
		if err := f.goOn(ctx, f.now.Add(min(Poll, max(end.Sub(f.now), 0)))); err != nil {
			return nil, err
		}
		var err error
		if codes, err = f.Tick(ctx, f.Hosts...); err != nil {
			return nil, err
		}
		if err := f.Settle(ctx); err != nil {
			return nil, err
		}
		if !f.now.Before(end) {
			return codes, nil
		}
	}
}

// goOn sets the server's time forward in small steps. A step of minutes while the server reads its store is a pause of
// the server: groups would wait for hosts to report again.
func (f *Fleet) goOn(ctx context.Context, to time.Time) error {
	for {
		if err := f.Jump(f.now.Add(min(rollout.ReportLife/2, to.Sub(f.now)))); err != nil {
			return err
		}
		if err := f.looked(ctx); err != nil || !f.now.Before(to) {
			return err
		}
	}
}

// Tick has hosts look at the same time, and returns the exit codes of their updaters.
func (f *Fleet) Tick(ctx context.Context, hosts ...*Host) ([]int, error) {
	codes, errs := make([]int, len(hosts)), make([]error, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() { codes[i], errs[i] = h.Tick(ctx) })
	}
	all.Wait()
	return codes, errors.Join(errs...)
}
