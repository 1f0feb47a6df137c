package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"teleport-update/integration/host"
)

// Where things are on a host.
const (
	Updater = "/usr/local/sbin/teleport-update"
	// Window is long enough for a release that exits at start.
	Window = "2s"

	dataDir = "/var/lib/teleport"
)

// Host is a host of a fleet.
type Host struct {
	*host.Host
	Group string

	relay net.Listener
	cut   atomic.Bool
}

// Add boots a host of a group, without an agent: Enable installs it.
func (f *Fleet) Add(ctx context.Context, group string) (*Host, error) {
	h, err := f.connect(ctx, group)
	if err != nil {
		return nil, err
	}
	if err := h.Boot(ctx); err != nil {
		return nil, err
	}
	updater, err := host.Build(ctx, host.Updater())
	if err != nil {
		return nil, err
	}
	if err := h.CopyIn(updater, Updater, 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"/etc/teleport.yaml": "teleport:\n  diag_addr: 127.0.0.1:3000\n",
		// The host looks when it is told to: see Tick.
		"/etc/systemd/system/teleport-update.timer.d/50-never.conf": "[Timer]\nOnCalendar=\nOnCalendar=2099-01-01\n",
	} {
		if err := h.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Clone boots a copy of a host, with all that is its own: host_uuid, machine-id, the secret that it reports with. The host
// boots again too.
func (f *Fleet) Clone(ctx context.Context, of *Host) (*Host, error) {
	h, err := f.connect(ctx, of.Group)
	if err != nil {
		return nil, err
	}
	if err := of.PowerOff(ctx); err != nil {
		return nil, err
	}
	for _, dir := range []string{"/etc", "/usr/local", "/opt", dataDir} {
		to := filepath.Join(h.Dir, "root", filepath.Dir(dir))
		if out, err := exec.CommandContext(ctx, "cp", "-a", filepath.Join(of.Dir, "root", dir), to).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copy %s of %s: %w\n%s", dir, of.Name, err, out)
		}
	}
	return h, errors.Join(of.Boot(ctx), h.Boot(ctx))
}

// connect makes a host that is off, with a way to the server.
func (f *Fleet) connect(ctx context.Context, group string) (_ *Host, err error) {
	h := &Host{Group: group}
	if h.Host, err = host.New(ctx, host.Options{}); err != nil {
		return nil, err
	}
	f.Hosts = append(f.Hosts, h)
	if h.relay, err = h.Listen("tcp", Address); err != nil {
		return nil, err
	}
	go f.serve(h)
	return h, nil
}

// Remove takes a host away for ever.
func (f *Fleet) Remove(h *Host) error {
	f.Hosts = slices.DeleteFunc(f.Hosts, func(one *Host) bool { return one == h })
	return h.Close()
}

// Close removes the host.
func (h *Host) Close() error {
	if h.relay != nil {
		h.relay.Close()
	}
	return h.Host.Close()
}

// Cut takes the host's way to the server away, or gives it back.
func (h *Host) Cut(cut bool) { h.cut.Store(cut) }

// serve passes on what the host sends to the server, as long as there is a way to it.
func (f *Fleet) serve(h *Host) {
	for {
		from, err := h.relay.Accept()
		if err != nil {
			return // it was closed
		}
		go func() {
			defer from.Close()
			if h.cut.Load() {
				return
			}
			to, err := f.network.Dial(context.Background(), "tcp", Address)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				io.Copy(to, from)
				to.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(from, to)
		}()
	}
}

// Enable installs the agent that find names, starts it, and has the host report with a join token; with "" it
// does not.
func (h *Host) Enable(ctx context.Context, token string) error {
	args := []string{Updater, "enable", "--proxy", "http://" + Address, "--group", h.Group, "--template", Template, "--health-window", Window}
	if token != "" {
		const file = "/root/report-token"
		if err := h.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			return err
		}
		args = append(args, "--report-token-file", file)
	}
	if _, err := h.Must(ctx, args...); err != nil {
		return err
	}
	if _, err := h.Must(ctx, "systemctl", "enable", "--now", "teleport"); err != nil {
		return err
	}
	// Without it the host has no name to report by.
	return h.await(func() error {
		if !h.Exists(dataDir + "/host_uuid") {
			return fmt.Errorf("the agent has not written its host_uuid")
		}
		return nil
	})
}

// Must runs a command that has to succeed, and returns what it prints.
func (h *Host) Must(ctx context.Context, args ...string) (string, error) {
	r, err := h.Run(ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s on %s: exit code %d\n%s%s", strings.Join(args, " "), h.Name, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout), err
}

// Tick is one run of the timer's unit, and the exit code of the updater.
func (h *Host) Tick(ctx context.Context) (code int, err error) {
	if !h.Running() {
		return 0, nil
	}
	if _, err := h.Run(ctx, "systemctl", "start", "teleport-update.service"); err != nil {
		return 0, err
	}
	unit, err := h.Unit(ctx, "teleport-update.service")
	if err != nil {
		return 0, err
	}
	if _, err := h.Run(ctx, "systemctl", "reset-failed", "teleport-update.service"); err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(unit["ExecMainStatus"], &code)
	return code, err
}

// ID is the host's UUID.
func (h *Host) ID() (string, error) {
	data, err := h.ReadFile(dataDir + "/host_uuid")
	return strings.TrimSpace(string(data)), err
}

// Serves returns nil when the agent that serves is of a version, and all of its database is there.
func (h *Host) Serves(ctx context.Context, version string) error {
	exe, err := h.Must(ctx, "sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe")
	if err != nil {
		return err
	}
	if want := "/" + version + "/bin/teleport"; !strings.HasSuffix(exe, want) {
		return fmt.Errorf("%s in %s executes %s; want %s", h.Name, h.Group, exe, version)
	}
	rows, err := h.Rows(ctx)
	if err != nil {
		return err
	}
	if rows.Integrity != "ok" || rows.Rows != rows.Last {
		return fmt.Errorf("the database of %s holds %+v", h.Name, rows)
	}
	return nil
}

// Rows is what the agent's database holds. Ids go up and are never given twice: all rows are there if Rows
// equals Last.
type Rows struct {
	Schema, Rows, Last int64
	Integrity          string
	ByVersion          map[string]int64 `json:"by_version"`
}

// Rows asks the agent.
func (h *Host) Rows(ctx context.Context) (r Rows, err error) {
	out, err := h.Must(ctx, "/usr/local/bin/teleport", "report", "--data-dir", dataDir)
	if err == nil {
		err = json.Unmarshal([]byte(out), &r)
	}
	return r, err
}

// await waits for what has to come.
func (h *Host) await(cond func() error) error {
	for deadline := time.Now().Add(host.Patience); ; time.Sleep(20 * time.Millisecond) {
		err := cond()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
