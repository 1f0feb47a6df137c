package transaction

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/immutable"
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
			if err := immutable.Set(m.Host.Paths.Unit(), true); err != nil {
				t.Skipf("no file can be made immutable here: %v", err)
			}
			t.Cleanup(func() { must(t, immutable.Set(m.Host.Paths.Unit(), false)) })
		},
		"programs of the link folder cannot be executed": func(t *testing.T, m *model) {
			dir := m.Host.Paths.LinkDir
			mounts(t, dir, dir, "", unix.MS_BIND, "")
			must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC, ""))
		},
	} {
		for _, withAgent := range []bool{false, true} {
			if withAgent == !strings.Contains(name, "unit") && name != "the link folder is read-only" {
				continue // the unit goes with the agent, programs are copied without
			}
			t.Run(fmt.Sprintf("%s, with the agent: %t", name, withAgent), func(t *testing.T) {
				m := migrated(t)
				spoils(t, m)
				before := m.main.pid
				err, _ := m.leave(withAgent)
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

// A folder of the updater's may be a mount: then it stays, and what is in it goes.
func TestAnUninstallEmptiesAFolderThatIsAMount(t *testing.T) {
	m := migrated(t)
	store := m.Host.Paths.Versions()
	mounts(t, store, store, "", unix.MS_BIND, "")
	if err, _ := m.leave(false); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if left, err := os.ReadDir(store); err != nil || len(left) > 0 {
		t.Errorf("%v stay, %v", left, err)
	}
	if err := m.sound(); err != nil {
		t.Error(err)
	}
}
