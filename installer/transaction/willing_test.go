package transaction

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// unwilling are hosts whose systemd would not carry a change out, or not undo it.
var unwilling = map[string]struct {
	set   func(*model)
	names string
}{
	"no stop":               {func(m *model) { m.ties.RefusesStop = true }, "RefuseManualStop="},
	"an end of the host":    {func(m *model) { m.ties.EndsHost = "SuccessAction=poweroff" }, "SuccessAction=poweroff"},
	"no start":              {func(m *model) { m.ties.RefusesStart = true }, "RefuseManualStart="},
	"a unit that activates": {func(m *model) { m.blockers = []string{"cloud-final.service"} }, "cloud-final.service"},
	"a unit that upholds it": {func(m *model) {
		m.ties.Starters = []string{"keeper.service"}
		m.others = map[string]bool{"keeper.service": true}
	}, "keeper.service"},
	"a condition on a file": {func(m *model) {
		m.ties.Conditions = []systemd.Condition{{Type: "ConditionPathExists", Parameter: m.Host.Paths.DataDir + "/gone"}}
	}, "ConditionPathExists="},
	"an assertion on a file": {func(m *model) {
		m.ties.Conditions = []systemd.Condition{{Type: "AssertPathExists", Negated: true, Parameter: m.Host.Paths.DataDir}}
	}, "AssertPathExists=!"},
	"a condition on the host": {func(m *model) {
		m.ties.Conditions = []systemd.Condition{{Type: "ConditionHost", Parameter: "no-such-host"}}
	}, "ConditionHost="},
	"an assertion on the host": {func(m *model) {
		m.ties.Conditions = []systemd.Condition{{Type: "AssertKernelVersion", Parameter: "<3"}}
	}, "AssertKernelVersion="},
	"programs out of sight": {func(m *model) {
		m.ties.View.Veils = []systemd.Veil{{Path: m.Host.Paths.Programs(), Setting: "InaccessiblePaths=/opt"}}
	}, "InaccessiblePaths=/opt"},
	"links out of sight": {func(m *model) {
		m.ties.View.Veils = []systemd.Veil{{Path: m.Host.Paths.LinkDir, Setting: "TemporaryFileSystem=/usr/local"}}
	}, "TemporaryFileSystem=/usr/local"},
	"data out of sight": {func(m *model) {
		m.ties.View.Veils = []systemd.Veil{{Path: m.Host.Paths.DataDir + "/proc", Setting: "ProtectHome=yes"}}
	}, "ProtectHome=yes"},
	"data read-only": {func(m *model) {
		m.ties.View.Veils = []systemd.Veil{{Path: "/", Setting: "ProtectSystem=strict", Of: systemd.Writing}}
	}, "ProtectSystem=strict"},
	"programs not executed": {func(m *model) {
		m.ties.View.Veils = []systemd.Veil{{Path: "/", Setting: "NoExecPaths=/", Of: systemd.Executing}}
	}, "NoExecPaths=/"},
	"another root":           {func(m *model) { m.ties.View.Root = "RootDirectory=/srv/x" }, "RootDirectory=/srv/x"},
	"a freeze":               {func(m *model) { m.frozenBy = "teleport.service" }, "`systemctl thaw teleport` first"},
	"a slice that is frozen": {func(m *model) { m.frozenBy = "apps.slice" }, "`systemctl thaw apps.slice` first"},
	"a mask":                 {func(m *model) { m.masked = true }, "masked"},
}

// Whatever systemd will not do is found before the agent is touched, in each direction.
func TestWhatSystemdWillNotDoIsAskedBeforeTheAgentIsTouched(t *testing.T) {
	some := sampled{every: 11}
	for name, u := range unwilling {
		for _, to := range []string{"1.1.0", "0.9.0"} {
			for _, fails := range []fate{holds, dies} {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s/to %s, which %s", name, to, fails), func(t *testing.T) {
					t.Parallel()
					m := newModel(t, "1.0.0", to, map[string]behaviour{"1.0.0": one, to: {schema: map[string]int{"1.1.0": 2, "0.9.0": 1}[to], fate: fails}})
					kind := Update
					if to == "0.9.0" {
						m.left(to)
						kind = Downgrade
					}
					u.set(m)
					before := m.main
					err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(kind)) })
					if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), u.names) {
						t.Errorf("it ends with %v; want a refusal that names %s", err, u.names)
					}
					touched := slices.ContainsFunc(m.calls, func(c string) bool {
						return slices.Contains([]string{"stop", "start", "restart", "prove", "daemon-reload"}, c)
					})
					if m.main != before || touched || host.Exists(m.Host.Paths.Journal()) {
						t.Errorf("something was changed: %q", m.calls)
					}
					c, err := m.Host.Paths.LoadConfig()
					if err != nil || c.Status.Failed != nil {
						t.Errorf("the version is blamed: %+v, %v", c.Status.Failed, err)
					}
				})
			}
		}
	}
}

// A unit that is inactive starts nothing.
func TestAStarterThatIsNotActiveIsNoReasonToRefuse(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
	m.ties.Starters = []string{"keeper.service"}
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); err != nil {
		t.Error(err)
	}
	if err := m.closed(); err != nil {
		t.Error(err)
	}
}

// Units that go down with the agent are brought back in every way out.
func TestUnitsThatGoDownWithTheAgentAreBroughtBack(t *testing.T) {
	for name, to := range map[string]behaviour{"a downgrade that holds": one, "a downgrade that is undone": {schema: 1, fate: dies}} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, "1.0.0", "0.9.0", map[string]behaviour{"1.0.0": one, "0.9.0": to})
			m.left("0.9.0")
			m.ties.Dependents = []string{"forwarder.service", "idle.service"}
			m.others = map[string]bool{"forwarder.service": true, "idle.service": false}
			m.runs(func() error { return m.transact(t.Context(), m.request(Downgrade)) })
			if !m.others["forwarder.service"] || m.others["idle.service"] || !slices.Contains(m.calls, "stop") {
				t.Errorf("after %q the units are %v", m.calls, m.others)
			}
			if err := m.closed(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A start that the host prevents says nothing about the version before: the journal stays open, and
// each run tries again until it ran.
func TestAnAgentThatWeStoppedIsStartedInEachRunUntilItRuns(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": two(diesLate)})
	m.heldBack = true
	m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
	for n := range 3 {
		if m.main != nil || !host.Exists(m.Host.Paths.Journal()) {
			t.Fatalf("run %d: the agent is %+v, the journal is there: %v", n, m.main, host.Exists(m.Host.Paths.Journal()))
		}
		m.calls = nil
		m.tick()
		if !slices.Contains(m.calls, "prove") {
			t.Errorf("run %d did not try: %q", n, m.calls)
		}
	}
	m.heldBack = false
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	if err := m.closed(); err != nil {
		t.Error(err)
	}
}

func TestDataThatGoWithTheStopAreNotBackedUp(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
	for dir, want := range map[string]bool{"teleport": true, "other": false} {
		m.ties.Runtime = []string{filepath.Join("/run", dir)}
		sight, err := m.Look(t.Context())
		must(t, err)
		if loses := losesData(sight, "/run/teleport/proc/sqlite.db"); loses != want {
			t.Errorf("/run/%s: %v; want %v", dir, loses, want)
		}
	}
}

// With KillMode=process a stop ends the process that serves, whichever systemd has for the main one,
// and what drains its sessions stays.
func TestWhatAStopEnds(t *testing.T) {
	served := Sight{Group: []int{121, 214, 300}}
	served.MainPID, served.Serving.PID = 121, 214
	alone := Sight{Group: []int{121}}
	alone.MainPID = 121
	for _, c := range []struct {
		mode  string
		sight Sight
		want  []int
	}{
		{"control-group", served, []int{121, 214, 300}}, {"mixed", served, []int{121, 214, 300}},
		{"process", served, []int{214}}, {"process", alone, []int{121}}, {"none", served, nil},
	} {
		c.sight.Ties.KillMode = c.mode
		if got := c.sight.ended(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", c.mode, got, c.want)
		}
	}
}

// A watch that may not look at the agent's process says nothing about the version: the agent is left
// as it is, the journal stays open, and a run that may look goes on.
func TestAWatchThatMayNotLookBlamesNoVersion(t *testing.T) {
	for name, next := range map[string]behaviour{"a version that holds": twoHolds, "a version that dies late": two(diesLate)} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": next})
			m.after = func(call string) error {
				if call == "prove" {
					return &health.HiddenError{Unit: "teleport.service", Why: fs.ErrPermission}
				}
				return nil
			}
			m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
			stopped := slices.Contains(m.calls, "stop") || slices.Contains(m.calls, "restart")
			c, err := m.Host.Paths.LoadConfig()
			if stopped || !host.Exists(m.Host.Paths.Journal()) || err != nil || c.Status.Failed != nil {
				t.Errorf("after %q the journal is there: %v, blamed: %+v, %v", m.calls, host.Exists(m.Host.Paths.Journal()), c.Status.Failed, err)
			}
			m.after = nil
			m.tick()
			m.tick()
			if err := m.closed(); err != nil {
				t.Error(err)
			}
		})
	}
}
