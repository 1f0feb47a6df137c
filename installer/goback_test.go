package installer

import (
	"testing"
	"time"

	"teleport-update/health/settings"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

func TestARunOfTheTimerGoesBackOnlyWhereAPersonAskedForIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *state.Config, u *state.Unstable, t *tick)
		want   bool
	}{
		"asked for":            {func(*state.Config, *state.Unstable, *tick) {}, true},
		"not asked for":        {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Spec.Health.RollbackWindow = 0 }, false},
		"too late":             {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.LastUpdate.Time = noon.Add(-2 * time.Hour) }, false},
		"a clock that jumped":  {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.LastUpdate.Time = noon.Add(time.Hour) }, false},
		"a person's command":   {func(_ *state.Config, _ *state.Unstable, t *tick) { t.i.Machine.Scheduled = false }, false},
		"pinned":               {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Spec.Pinned = true }, false},
		"disabled":             {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Spec.Enabled = false }, false},
		"no version before":    {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.PreviousVersion = "" }, false},
		"gone back already":    {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.Held = &state.Held{Version: "1.2.0"} }, false},
		"another version":      {func(_ *state.Config, u *state.Unstable, _ *tick) { u.Version = "1.0.0" }, false},
		"a switch that failed": {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.LastUpdate.Result = state.RolledBack }, false},
		"left once already": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Left = &state.Left{Version: "1.1.0", Edition: version.OSS}
		}, false},
		"refused, and within the window": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.LastUpdate.Result, c.Status.LastUpdate.Target, c.Status.ActiveSince = state.FailedEarly, "1.0.0", noon.Add(-time.Minute)
			c.Status.RollbackRefused = &state.Refused{Version: "1.0.0", Edition: version.OSS}
		}, true},
		"refused, and the window is over": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.LastUpdate.Result, c.Status.LastUpdate.Target, c.Status.ActiveSince = state.FailedEarly, "1.0.0", noon.Add(-2*time.Hour)
			c.Status.RollbackRefused = &state.Refused{Version: "1.0.0", Edition: version.OSS}
		}, false},
		"another version was refused": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.LastUpdate.Result, c.Status.ActiveSince = state.FailedEarly, noon.Add(-time.Minute)
			c.Status.RollbackRefused = &state.Refused{Version: "0.9.0", Edition: version.OSS}
		}, false},
		"never proven, and not asked for": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Spec.Health.RollbackWindow = true, 0
		}, true},
		"never proven, for a month": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Status.LastUpdate.Time = true, noon.Add(-30*24*time.Hour)
		}, true},
		"never proven, and a clock that was set back": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Status.LastUpdate.Time = true, noon.Add(9*time.Hour)
		}, true},
		"never proven, and going back failed": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Status.ActiveSince = true, noon.Add(-time.Minute)
			c.Status.Left = &state.Left{Version: "1.1.0", Edition: version.OSS, Time: noon.Add(-time.Second)}
		}, false},
		"never proven since it came back": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Status.ActiveSince = true, noon.Add(-time.Minute)
			c.Status.Left = &state.Left{Version: "1.1.0", Edition: version.OSS, Time: noon.Add(-time.Hour)}
		}, true},
		"never proven, and pinned": {func(c *state.Config, _ *state.Unstable, _ *tick) { c.Status.Unproven, c.Spec.Pinned = true, true }, false},
		"the version before was left for the same": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Failed = &state.Failed{Version: "1.0.0", Edition: version.OSS, NextAttempt: noon.Add(-time.Hour)}
		}, false},
		"the version before failed, and this was never proven": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Unproven, c.Status.Failed = true, &state.Failed{Version: "1.2.0", Edition: version.OSS}
			c.Status.FailedBefore = []state.Failed{{Version: "1.0.0", Edition: version.OSS}}
		}, false},
		"the version before failed, and the policy had refused it": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.RollbackRefused = &state.Refused{Version: "1.0.0", Edition: version.OSS}
			c.Status.ActiveSince, c.Status.Failed = noon.Add(-time.Minute), &state.Failed{Version: "1.0.0", Edition: version.OSS}
		}, false},
		"another version failed": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Failed = &state.Failed{Version: "1.2.0", Edition: version.OSS}
		}, true},
		"another version was left": {func(c *state.Config, _ *state.Unstable, _ *tick) {
			c.Status.Left = &state.Left{Version: "1.0.5", Edition: version.OSS}
		}, true},
	} {
		i := testInstaller(t)
		i.Machine.Now, i.Machine.Scheduled = func() time.Time { return noon }, true
		c := state.EmptyConfig()
		c.Spec = state.Spec{Enabled: true, ActiveVersion: "1.1.0", Health: state.HealthSpec{Settings: settings.Settings{RollbackWindow: state.Duration(time.Hour)}}}
		c.Status = state.Status{ActiveEdition: version.OSS, PreviousVersion: "1.0.0", PreviousEdition: version.OSS,
			LastUpdate: &state.LastUpdate{Time: noon.Add(-time.Minute), Target: "1.1.0", Result: state.Succeeded}}
		u := &state.Unstable{Release: oss("1.1.0"), Count: 1}
		run := &tick{i: i}
		tc.change(&c, u, run)
		if got := run.goesBack(c, u); got != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}
