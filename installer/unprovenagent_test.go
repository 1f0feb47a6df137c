package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// starts is an agent that counts how often it is started.
type starts struct {
	seen
	n *int
}

func (s starts) Start(context.Context) error { *s.n++; return nil }

func TestAnAgentThatSystemdGaveUpIsStartedOnceInARun(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(u *systemd.Unit)
		person bool
		want   int
	}{
		"at its limit of starts":     {func(u *systemd.Unit) { u.ActiveState, u.NRestarts = "failed", 5 }, false, 1},
		"the same, a person's run":   {func(u *systemd.Unit) { u.ActiveState, u.NRestarts = "failed", 5 }, true, 0},
		"disabled":                   {func(u *systemd.Unit) { u.ActiveState, u.NRestarts, u.UnitFileState = "failed", 5, "disabled" }, false, 0},
		"never started again":        {func(u *systemd.Unit) { u.ActiveState, u.Restart = "failed", "no" }, false, 0},
		"a stop that took too long":  {func(u *systemd.Unit) { u.ActiveState, u.Result = "failed", "timeout" }, false, 0},
		"stopped by a person":        {func(u *systemd.Unit) { u.ActiveState, u.NRestarts = "inactive", 5 }, false, 0},
		"waiting for its next start": {func(u *systemd.Unit) { u.ActiveState, u.SubState, u.NRestarts = "activating", "auto-restart", 5 }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := state.EmptyConfig()
			c.Spec = state.Spec{Proxy: w.url, Enabled: true, ActiveVersion: "1.1.0"}
			c.Status.ActiveEdition = version.OSS
			must(t, c.Save(w.Machine.Host.Paths.Config()))
			look := sightOf(w.Installer, func(u *systemd.Unit, _ *string) { u.Restart = "on-failure"; tc.change(u) })
			n := 0
			w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
				a, err := look(ctx)
				return starts{a.(seen), &n}, err
			}
			w.Machine.Scheduled = !tc.person
			_ = w.beginTick().end(t.Context(), nil)
			if n != tc.want {
				t.Errorf("it is started %d times; want %d", n, tc.want)
			}
		})
	}
}

// A limit of the host ends an agent of any version: the timer's runs hold it against none.
func TestALimitOfTheHostIsNoCrashOfTheVersion(t *testing.T) {
	for _, limits := range [][]string{nil, {"RuntimeMaxSec=3s"}} {
		w := newWorld(t)
		c := state.EmptyConfig()
		c.Spec = state.Spec{Proxy: w.url, Enabled: true, ActiveVersion: "1.1.0"}
		c.Status.ActiveEdition = version.OSS
		must(t, c.Save(w.Machine.Host.Paths.Config()))
		w.Machine.Connect = sightOf(w.Installer, func(u *systemd.Unit, _ *string) {
			u.Restart, u.NRestarts, u.Since, u.Ties.Startup.EndsService = "always", 9, noon.Add(-time.Second), limits
		})
		_ = w.beginTick().end(t.Context(), nil)
		if m := w.ticks(); (m.Unstable == nil) != (limits != nil) || m.Agent.OfHost != (limits != nil) {
			t.Errorf("with %q the agent is %+v, unstable %+v", limits, m.Agent, m.Unstable)
		}
	}
}

// A version that was switched to while nobody ran it is proven by an agent that is healthy, also on a host on which updates
// are off.
func TestAnUnprovenVersionIsProvenByALaterRun(t *testing.T) {
	for name, spec := range map[string]state.Spec{"pinned": {Enabled: true, Pinned: true}, "disabled": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := state.EmptyConfig()
			c.Spec, c.Spec.Proxy, c.Spec.ActiveVersion = spec, w.url, "1.1.0"
			c.Status = state.Status{ActiveEdition: version.OSS, Unproven: true}
			must(t, c.Save(w.Machine.Host.Paths.Config()))
			proven := func() bool {
				_ = w.beginTick().end(t.Context(), nil)
				c, err := state.LoadConfig(w.Machine.Host.Paths.Config())
				must(t, err)
				return !c.Status.Unproven
			}
			change := func(u *systemd.Unit, _ *string) { u.Since = noon }
			for _, step := range []struct {
				name  string
				after time.Duration
				agent func(u *systemd.Unit, executes *string)
				want  bool
			}{
				{"a moment after its start", time.Second, change, false},
				{"another version", time.Hour, func(u *systemd.Unit, e *string) { change(u, e); *e = "1.0.0" }, false},
				{"stopped", time.Hour, func(u *systemd.Unit, _ *string) { u.ActiveState, u.SubState = "inactive", "dead" }, false},
				{"held", time.Minute, change, true},
			} {
				w.clock, w.Machine.Connect = noon.Add(step.after), sightOf(w.Installer, step.agent)
				if got := proven(); got != step.want {
					t.Errorf("%s: proven %v", step.name, got)
				}
			}
			if _, err := os.Stat(w.Machine.Host.Paths.Ticks()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever starts a version that no agent has run here yet is told so, and what comes of it if it fails.
func TestAnAdviceToStartSaysThatTheVersionIsUntried(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *state.Config)
		boot   string
		says   string
	}{
		"not enabled at boot": {func(*state.Config) {}, "disabled",
			"`systemctl enable --now teleport` starts version 1.1.0, which has not run on this host yet: the next run of the timer goes back to version 1.0.0 if it fails"},
		"enabled at boot": {func(*state.Config) {}, "enabled",
			"`systemctl start teleport` starts version 1.1.0, which has not run on this host yet: the next run of the timer goes back to version 1.0.0 if it fails"},
		"updates are off": {func(c *state.Config) { c.Spec.Enabled = false }, "enabled",
			"nothing but `teleport-update rollback` goes back to version 1.0.0 if it fails"},
		"nothing to go back to": {func(c *state.Config) { c.Status.PreviousVersion = "" }, "enabled", "`systemctl start teleport` starts it"},
		"the version before failed": {func(c *state.Config) {
			c.Status.Failed = &state.Failed{Version: "1.0.0", Edition: version.OSS}
		}, "enabled", "`systemctl start teleport` starts it"},
		"a proven one": {func(c *state.Config) { c.Status.Unproven = false }, "enabled", "`systemctl start teleport` starts it"},
	} {
		s := back(t)
		s.c.Status.Unproven = true
		tc.change(&s.c)
		s.save()
		s.Machine.Connect = sightOf(s.Installer, func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState, u.UnitFileState, u.MainPID, *executes = "inactive", "dead", tc.boot, 0, ""
		})
		writeFile(t, s.Machine.Host.Paths.AgentConfig, "version: v3\n")
		tree, _, err := s.Machine.Active(s.c)
		must(t, err)
		must(t, s.Machine.Host.Repair(tree))
		r, err := s.Status(t.Context(), StatusOptions{Offline: true})
		must(t, err)
		found := false
		for _, c := range r.Conditions {
			found = found || strings.Contains(c.Message, tc.says)
		}
		if !found {
			t.Errorf("%s: status says %+v; want %q", name, r.Conditions, tc.says)
		}
	}
}

// An agent that a person stopped is told to write its configuration only if it has none, where its unit leads it.
func TestAStoppedAgentIsToldToConfigureOnlyIfItHasNoConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments, usual, node string
		says                   string
		by                     decision.Type
	}{
		"none":                        {says: "write its configuration", by: decision.AgentNotStarted},
		"one in the usual place":      {usual: "version: v3\n", says: "as after a person stopped and disabled it, or on a new system disk: `systemctl enable --now teleport` starts it", by: decision.AgentNotStarted},
		"one where its unit leads":    {arguments: "--config=NODE", node: "version: v3\n", says: "as after a person stopped and disabled it, or on a new system disk: `systemctl enable --now teleport` starts it", by: decision.AgentNotStarted},
		"none where its unit leads":   {arguments: "--config=NODE", usual: "version: v3\n", says: "write its configuration", by: decision.AgentNotStarted},
		"one that only systemd finds": {arguments: "--config=%h/node.yaml", says: "which only systemd can resolve: write the path itself", by: decision.NotLookedAt},
	} {
		s := back(t)
		node := filepath.Join(t.TempDir(), "node.yaml")
		s.Machine.Connect = sightOf(s.Installer, func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState, u.UnitFileState, u.MainPID, *executes = "inactive", "dead", "disabled", 0, ""
		})
		tree, _, err := s.Machine.Active(s.c)
		must(t, err)
		must(t, s.Machine.Host.Repair(tree))
		if tc.usual != "" {
			writeFile(t, s.Machine.Host.Paths.AgentConfig, tc.usual)
		}
		if tc.node != "" {
			writeFile(t, node, tc.node)
		}
		if tc.arguments != "" {
			writeFile(t, s.Machine.Host.Paths.Unit()+".d/own.conf", "[Service]\nExecStart=\nExecStart=/bin/teleport start "+
				strings.ReplaceAll(tc.arguments, "NODE", node)+"\n")
		}
		r, err := s.Status(t.Context(), StatusOptions{Offline: true})
		must(t, err)
		says := func(c decision.Condition) bool { return c.Type == tc.by && strings.Contains(c.Message, tc.says) }
		if !slices.ContainsFunc(r.Conditions, says) {
			t.Errorf("%s: status says %+v; want %s, %q", name, r.Conditions, tc.by, tc.says)
		}
	}
}
