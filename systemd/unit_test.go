package systemd

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// variants are properties with these values.
func variants(values map[string]any) properties {
	p := properties{}
	for name, value := range values {
		p[name] = dbus.MakeVariantWithSignature(value, dbus.Signature{})
	}
	return p
}

func TestParseUnit(t *testing.T) {
	u := parseUnit("teleport.service", variants(map[string]any{
		"ActiveState":      "active",
		"SubState":         "running",
		"InvocationID":     []byte{0xab, 0x01},
		"MainPID":          uint32(42),
		"NRestarts":        uint32(3),
		"RestartUSec":      uint64(5_000_000),
		"TimeoutStartUSec": uint64(math.MaxUint64),
		"TimeoutStopUSec":  uint64(90_000_000),
		"ExecStart":        [][]any{{"/usr/local/bin/teleport", []string{"/usr/local/bin/teleport", "start"}, false}},
		"Job":              []any{uint32(7), dbus.ObjectPath("/org/freedesktop/systemd1/job/7")},
		"ExecMainCode":     int32(1),
		"ExecMainStatus":   int32(203),
		"DropInPaths":      []string{"/etc/systemd/system/teleport.service.d/a.conf"},
	}))
	if u.ExecStart != "/usr/local/bin/teleport" || u.InvocationID != "ab01" || u.MainPID != 42 || u.NRestarts != 3 ||
		u.RestartDelay != 5*time.Second || u.StartTimeout != Forever || u.StopTimeout != 90*time.Second ||
		!u.JobPending || u.Job.ID != 7 || u.Exit != (ExitStatus{1, 203}) || len(u.DropIns) != 1 || !u.Running() {
		t.Errorf("%+v", u)
	}
	// As systemd answers for a unit that does not exist, and as an older one might.
	u = parseUnit("x.service", variants(map[string]any{
		"LoadState": "not-found", "ActiveState": "inactive", "Job": []any{uint32(0), dbus.ObjectPath("/")},
		"InvocationID": make([]byte, 16), "MainPID": "not a number",
	}))
	if u.InvocationID != "" || u.JobPending || !u.Idle() || u.Running() || u.ExecStart != "" || u.MainPID != 0 {
		t.Errorf("%+v", u)
	}
}

func TestAnAmbientCapabilityPassesModes(t *testing.T) {
	for mask, want := range map[uint64]bool{0: false, 1 << 0: false, 1 << 1: true, 1<<12 | 1<<1: true, 1 << 2: false} {
		if u := parseUnit("teleport.service", variants(map[string]any{"AmbientCapabilities": mask})); u.PassesModes != want {
			t.Errorf("%b: passes modes: %v", mask, u.PassesModes)
		}
	}
}

func TestAFrozenUnitIsToldFromOneThatIsThawed(t *testing.T) {
	for state, want := range map[string]bool{
		"": false, "running": false, "thawing": false, "freezing": true, "frozen": true, "frozen-by-parent": true, "freezing-by-parent": true,
	} {
		if u := parseUnit("teleport.service", variants(map[string]any{"FreezerState": state})); u.Frozen != want {
			t.Errorf("%q: frozen %v; want %v", state, u.Frozen, want)
		}
	}
}

// The times are those of a stop that killed an agent, and of one that was killed until
// systemd gave it up.
func TestAStopIsToldFromALimitOfStarts(t *testing.T) {
	for name, w := range map[string]struct {
		ended, changed uint64
		idle           bool
	}{
		"stopped":              {16396626288, 16396626364, true},
		"given up":             {16398298535, 16398625678, false},
		"its end was not seen": {0, 16396626364, false},
		"it ended afterwards":  {16396626365, 16396626364, false},
	} {
		u := parseUnit("teleport.service", variants(map[string]any{
			"ActiveState": "failed", "SubState": "failed", "Restart": "on-failure", "Result": "signal", "NRestarts": uint32(5), "RestartUSec": uint64(300_000),
			"ExecMainCode": int32(Killed), "ExecMainStatus": int32(9), "ExecMainExitTimestampMonotonic": w.ended, "StateChangeTimestampMonotonic": w.changed,
		}))
		if u.Idle() != w.idle {
			t.Errorf("%s: idle %v; want %v", name, u.Idle(), w.idle)
		}
	}
}

func TestWhatIsRunningAndWhatIsIdle(t *testing.T) {
	for _, w := range []struct {
		active, sub   string
		job           bool
		running, idle bool
	}{
		{"active", "running", false, true, false},
		{"active", "running", true, true, false},
		{"active", "exited", false, false, false},
		{"reloading", "reload", false, true, false},
		{"activating", "auto-restart", false, false, false},
		{"activating", "start", true, false, false},
		{"failed", "failed", false, false, false},
		{"inactive", "dead", false, false, true},
		{"inactive", "dead", true, false, false},
	} {
		u := Unit{ActiveState: w.active, SubState: w.sub, JobPending: w.job}
		if u.Running() != w.running || u.Idle() != w.idle {
			t.Errorf("%s (%s), job %v: running %v, idle %v; want %v, %v", w.active, w.sub, w.job, u.Running(), u.Idle(), w.running, w.idle)
		}
	}
}

func TestDialWithoutSystemd(t *testing.T) {
	for _, w := range []struct {
		name, make string
		want       error
		text       string
	}{
		{"a host that another init booted", "", ErrNotRunning, "run/systemd/system"},
		{"a host whose buses do not answer", "run/systemd/system", ErrUnreachable, "system bus"},
		{"a chroot with the host's /run", "run/systemd/system proc/1/root", ErrNotRunning, "this is a chroot"},
	} {
		t.Run(w.name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range strings.Fields(w.make) {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, err := dialer{root, time.Second / 10, time.Minute}.dial(t.Context())
			if !errors.Is(err, w.want) || !strings.Contains(err.Error(), w.text) {
				t.Errorf("%v; want %q and %q", err, w.want, w.text)
			}
		})
	}
	_, err := DialRoot(t.Context(), t.TempDir())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want the reason in the chain", err)
	}
}
