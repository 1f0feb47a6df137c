package installer

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// opens counts how often a file is opened while something is done, whoever replaces it meanwhile.
func opens(t *testing.T, path string, do func()) (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	defer unix.Close(fd)
	// With its ends, or two openings that nobody has heard of yet would be one.
	_, err = unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_OPEN|unix.IN_CLOSE)
	must(t, err)
	do()
	events := make([]byte, 64<<10)
	for {
		read, err := unix.Read(fd, events)
		if errors.Is(err, unix.EAGAIN) {
			return n
		}
		must(t, err)
		for at := 0; at < read; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&events[at]))
			name := events[at+unix.SizeofInotifyEvent:][:event.Len]
			if event.Mask&unix.IN_OPEN != 0 && unix.ByteSliceToString(name) == filepath.Base(path) {
				n++
			}
			at += unix.SizeofInotifyEvent + int(event.Len)
		}
	}
}

// configOf is updates.yaml as it is now.
func configOf(t *testing.T, i *Installer) state.Config {
	t.Helper()
	c, err := i.Machine.Host.Paths.LoadConfig()
	must(t, err)
	return c
}

// What each verb reads of a host with nothing to do: updates.yaml, and the agent, as systemd and the kernel see it. Under
// the update lock updates.yaml is read twice, once to see whether a journal was lost.
func TestAVerbReadsTheHostOnce(t *testing.T) {
	before, underLock, afterTakeOver, after := 1, 2, 1, 1
	for name, verb := range map[string]struct {
		do    func(context.Context, *world) error
		reads int // of updates.yaml
		looks int // at the agent
	}{
		"update": {func(ctx context.Context, w *world) error { return w.Update(ctx, UpdateOptions{}) }, before + underLock + after, 1},
		"update --dry-run": {func(ctx context.Context, w *world) error {
			_, err := w.UpdatePlan(ctx, UpdateOptions{})
			return err
		}, 1, 1},
		"status": {func(ctx context.Context, w *world) error {
			_, err := w.Status(ctx, StatusOptions{})
			return err
		}, 1, 1},
		"verify": {func(ctx context.Context, w *world) error {
			_, err := w.Verify(ctx)
			return err
		}, 1, 1},
		"enable": {func(ctx context.Context, w *world) error { return w.Enable(ctx, EnableOptions{}) }, before + underLock + afterTakeOver + after, 1},
		"pin":    {func(ctx context.Context, w *world) error { return w.Pin(ctx, "", PinOptions{}) }, underLock, 0},
		"rollback --dry-run": {func(ctx context.Context, w *world) error {
			_, err := w.RollbackPlan(ctx, RollbackOptions{Force: true})
			return err
		}, 1, 1},
		"policy": {func(_ context.Context, w *world) error {
			_, err := w.PolicyReport()
			return err
		}, 1, 0},
		"uninstall --dry-run": {func(ctx context.Context, w *world) error {
			_, err := w.UninstallPlan(ctx, false)
			return err
		}, 1, 1},
		"what each command ends with": {func(ctx context.Context, w *world) error {
			w.seen = nil // of another program's run
			w.Settle(ctx, "status")
			return nil
		}, 1, 1},
		"update, and what it ends with": {func(ctx context.Context, w *world) error {
			defer w.Settle(ctx, "update")
			return w.Update(ctx, UpdateOptions{})
		}, before + underLock + after + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, looked := newWorld(t), 0
			if name == "enable" {
				needsEarlyFolder(t, w)
			}
			nothingToDo(t, w, &looked)
			read := opens(t, w.Machine.Host.Paths.Config(), func() { must(t, verb.do(t.Context(), w)) })
			if read != verb.reads || looked != verb.looks {
				t.Errorf("updates.yaml is read %d times, want %d; the agent is looked at %d times, want %d", read, verb.reads, looked, verb.looks)
			}
		})
	}
}

// A run with nothing to do asks systemd for the agent and the updater's own units. What those need is for a person who asks.
func TestARunWithNothingToDoAsksForNoOtherUnits(t *testing.T) {
	for name, verb := range map[string]struct {
		do   func(context.Context, *Installer) error
		more bool
	}{
		"update":                  {func(ctx context.Context, i *Installer) error { return i.Update(ctx, UpdateOptions{}) }, false},
		"what each run ends with": {func(ctx context.Context, i *Installer) error { i.Settle(ctx, "update"); return nil }, false},
		"status":                  {func(ctx context.Context, i *Installer) error { _, err := i.Status(ctx, StatusOptions{}); return err }, true},
		"verify":                  {func(ctx context.Context, i *Installer) error { _, err := i.Verify(ctx); return err }, true},
	} {
		w := newWorld(t)
		w.Machine.Host.Program, w.Machine.Scheduled = "/proc/self/exe", !verb.more
		whole(t, w.Installer, version.Release{Version: "1.1.0", Edition: version.OSS})
		c := configOf(t, w.Installer)
		c.Spec.Proxy, c.Spec.Enabled, c.Spec.ActiveVersion, c.Status.ActiveEdition = w.url, true, "1.1.0", version.OSS
		must(t, c.Save(w.Machine.Host.Paths.Config()))
		asked := map[string]int{}
		connect := sightOf(w.Installer, func(u *systemd.Unit, _ *string) {
			u.Ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "vpn.service"}}
		})
		w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := connect(ctx)
			shown := a.(seen)
			shown.units = func(name string, u *systemd.Unit) {
				asked[name]++
				if u.Name == w.Machine.Host.OwnUnits().Recovery() {
					u.Ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "var.mount"}}
				}
			}
			return looks{shown, new(int)}, err
		}
		must(t, w.Update(t.Context(), UpdateOptions{})) // which puts right what the test has left out
		clear(asked)
		must(t, verb.do(t.Context(), w.Installer))
		for _, unit := range []string{"vpn.service", "var.mount"} {
			if (asked[unit] == 1) != verb.more || asked[unit] > 1 {
				t.Errorf("%s asks for %s %d times", name, unit, asked[unit])
			}
		}
		own := w.Machine.Host.OwnUnits()
		for unit, n := range asked {
			if known := unit == own.Timer() || unit == own.Service() || unit == own.Recovery() || verb.more; !known || n > 1 {
				t.Errorf("%s asks for %s %d times", name, unit, n)
			}
		}
	}
}

// needsEarlyFolder skips a test of enable if the temporary folder is on a file system of its own, as with TMPDIR=/dev/shm: units in
// it would be missed at boot, and enable refuses it.
func needsEarlyFolder(t *testing.T, w *world) {
	t.Helper()
	if mount, err := survey.LateMount(w.Processes.MountAt, w.Boot, w.Machine.Host.Paths.UnitDir); err == nil && mount != "" {
		t.Skipf("%s is mounted after systemd has read its units", mount)
	}
}
