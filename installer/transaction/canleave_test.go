package transaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// mounts has a folder be a file system of its own until the test ends.
func mounts(t *testing.T, source, dir, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(source, dir, kind, flags, options); err != nil {
		t.Skipf("no file system of our own: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

func mountsReadOnly(t *testing.T, dir string) {
	t.Helper()
	mounts(t, dir, dir, "", unix.MS_BIND, "")
	must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

// full has the links be in a folder without room for a program.
func full(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	links := map[string]string{}
	for _, e := range entries {
		links[e.Name()], err = os.Readlink(filepath.Join(dir, e.Name()))
		must(t, err)
	}
	mounts(t, "tmpfs", dir, "tmpfs", 0, "size=16k")
	for name, to := range links {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), bytes.Repeat([]byte("x"), 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the folder is not full: %v", err)
	}
}

// An uninstall that could not be ended is refused before anything is changed: while it is open, no other command works.
func TestAnUninstallThatCouldNotBeEndedIsRefused(t *testing.T) {
	for name, spoils := range map[string]func(t *testing.T, m *model){
		"the link folder is read-only": func(t *testing.T, m *model) { mountsReadOnly(t, m.Host.Paths.LinkDir) },
		"the unit folder is read-only": func(t *testing.T, m *model) { mountsReadOnly(t, m.Host.Paths.UnitDir) },
		"the link folder is full":      func(t *testing.T, m *model) { full(t, m.Host.Paths.LinkDir) },
		"the unit is immutable": func(t *testing.T, m *model) {
			if err := immutable(m.Host.Paths.Unit(), true); err != nil {
				t.Skipf("no file can be made immutable here: %v", err)
			}
			t.Cleanup(func() { must(t, immutable(m.Host.Paths.Unit(), false)) })
		},
	} {
		for _, keep := range []bool{false, true} {
			if keep && name == "the unit is immutable" {
				continue // it stays as it is
			}
			t.Run(fmt.Sprintf("%s, keep the agent: %t", name, keep), func(t *testing.T) {
				m := migrated(t)
				spoils(t, m)
				before := m.main.pid
				err, _ := m.leave(state.Uninstall{KeepAgent: keep})
				if !failure.Is[*failure.RefusedError](err) {
					t.Errorf("it ends with %v", err)
				}
				c, err := m.Host.Paths.LoadConfig()
				if err != nil || !c.Spec.Enabled || host.Exists(m.Host.Paths.Journal()) {
					t.Errorf("something was changed: updates are on: %t, an open journal: %t (%v)", c.Spec.Enabled, host.Exists(m.Host.Paths.Journal()), err)
				}
				if m.main == nil || m.main.pid != before || slices.Contains(m.calls, "stop") {
					t.Errorf("the agent is %+v; calls: %q", m.main, m.calls)
				}
			})
		}
	}
}

// The room may go once the uninstall has begun: then no run stops the agent for what it cannot put in its place.
func TestAnUninstallThatWaitsForRoomLeavesTheAgentInPeace(t *testing.T) {
	m := migrated(t)
	m.at("stop", func() error { panic(killed{}) })
	m.leave(state.Uninstall{})
	m.dropHooks()
	full(t, m.Host.Paths.LinkDir)
	m.calls = nil
	for range 3 {
		m.tick()
	}
	if slices.Contains(m.calls, "stop") || !host.Exists(m.Host.Paths.Journal()) {
		t.Errorf("calls: %q", m.calls)
	}
	must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "filler")))
}

// What is put back makes the folder that it goes to.
func TestAnUninstallMakesFoldersThatAreGone(t *testing.T) {
	for name, dir := range map[string]func(m *model) string{
		"links": func(m *model) string { return m.Host.Paths.LinkDir }, "the unit": func(m *model) string { return m.Host.Paths.UnitDir },
	} {
		m := migrated(t)
		must(t, os.RemoveAll(dir(m)))
		if err, _ := m.leave(state.Uninstall{}); err != nil {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if err := m.leftToBefore(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		m.reboot()
		if err := m.sound(); err != nil {
			t.Errorf("%s: after a boot: %v", name, err)
		}
	}
}

// A folder of the updater's may be a mount: then it stays, and what is in it goes.
func TestAnUninstallEmptiesAFolderThatIsAMount(t *testing.T) {
	m := migrated(t)
	store := m.Host.Paths.Versions()
	mounts(t, store, store, "", unix.MS_BIND, "")
	if err, _ := m.leave(state.Uninstall{}); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if left, err := os.ReadDir(store); err != nil || len(left) > 0 {
		t.Errorf("%v stay, %v", left, err)
	}
	if err := m.sound(); err != nil {
		t.Error(err)
	}
}

// What comes after the proof may fail for long: later runs do not restart the agent.
func TestAnUninstallRestartsTheAgentOnce(t *testing.T) {
	m := migrated(t)
	m.at("watch", func() error {
		dir := filepath.Dir(m.Host.Paths.Updater())
		must(t, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
		mountsReadOnly(t, dir)
		return nil
	})
	for range 3 {
		m.leave(state.Uninstall{})
		m.tick()
	}
	proofs := len(slices.DeleteFunc(slices.Clone(m.calls), func(c string) bool { return c != "prove" }))
	if m.dropHooks(); proofs != 1 {
		t.Errorf("the agent is restarted %d times: %q", proofs, m.calls)
	}
}

// Units that went down with the agent come back also where the uninstall is called off.
func TestUnitsThatNeedTheAgentAreBackAfterAnUninstallThatIsCalledOff(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := brokenBefore(t, schema, dies)
		m.ties = systemd.Ties{Dependents: []string{"app.service"}}
		m.others = map[string]bool{"app.service": true}
		m.leave(state.Uninstall{})
		if err := m.calledOff(); err != nil || !m.others["app.service"] {
			t.Errorf("schema %d: app.service is up: %t; %v", schema, m.others["app.service"], err)
		}
	}
}

// outranked is a host whose systemd would start the agent by a unit that somebody put above the agent's own.
type outranked struct{ *model }

func (o outranked) Look(ctx context.Context) (Sight, error) {
	s, err := o.model.Look(ctx)
	s.FragmentPath = "/etc/systemd/system/teleport.service"
	return s, err
}

func TestNoUninstallStartsAnotherUnitThanTheOneOfBefore(t *testing.T) {
	m := migrated(t)
	m.Machine.Connect = func(context.Context) (Agent, error) { return outranked{m}, nil }
	before := m.main
	err, _ := m.leave(state.Uninstall{})
	if !failure.Is[*failure.RefusedError](err) || !saysAll(err, []string{"/etc/systemd/system/teleport.service takes precedence"}) || m.main != before {
		t.Errorf("it ends with %v, and the agent is %+v", err, m.main)
	}
}
