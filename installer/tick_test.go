package installer

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

func TestAMirrorThatFailsIsAskedLessOften(t *testing.T) {
	w := newWorld(t)
	asked := w.failFor(10 * time.Hour)
	if want := []int{0, 10, 20, 30, 40, 50, 60, 80, 120, 200, 320, 440, 560}; !slices.Equal(asked, want) {
		t.Errorf("it was asked in minutes %v; want %v", asked, want)
	}
	r := w.state()
	if f := r.Failing; r.State != decision.Failing || f.Count != 13 || !f.First.Equal(noon) || !f.Last.Equal(noon.Add(560*time.Minute)) ||
		f.NextAttempt == nil || !f.NextAttempt.Equal(noon.Add(680*time.Minute)) || !strings.Contains(f.Error, "404") {
		t.Errorf("status: %s, %+v", r.State, f)
	}
	if r.FailedVersion != nil {
		t.Error("the version counts as failed")
	}
	w.Jitter = func(most time.Duration) time.Duration { return most }
	w.clock = noon.Add(680 * time.Minute)
	w.tick()
	if next := w.state().Failing.NextAttempt.Sub(w.clock); next != 90*time.Minute {
		t.Errorf("with jitter, the next attempt is in %v; want 1h30m", next)
	}
}

func TestWhatEndsTheSpacingOfAMirrorThatFails(t *testing.T) {
	const other = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for name, tc := range map[string]struct {
		change func(w *world)
		asks   bool
	}{
		"nothing":             {func(*world) {}, false},
		"another target":      {func(w *world) { w.wants.Version = "1.2.0" }, true},
		"another template":    {func(w *world) { w.configure("/b") }, true},
		"a policy":            {func(w *world) { w.owner(map[string]string{"policy.yaml": "signatures: off\n"}) }, true},
		"a policy that stays": {func(w *world) { w.owner(map[string]string{"policy.yaml": "minimum: 1.0.0\n"}); w.tick() }, false},
		"a policy that was mended": {func(w *world) {
			w.owner(map[string]string{"policy.yaml": "minimum: 1.0.0\n"})
			w.tick()
			w.owner(map[string]string{"policy.yaml": "minimum: 1.0.0\nwithdrawn: [0.9.0]\n"})
		}, true},
		"a reboot":                      {func(w *world) { w.boot = "another" }, true},
		"a person":                      {func(w *world) { w.Machine.Scheduled = false }, true},
		"a clock that jumped":           {func(w *world) { w.clock = noon.Add(-48 * time.Hour) }, true},
		"a clock nine hours back":       {func(w *world) { w.clock = noon.Add(-7 * time.Hour) }, true},
		"the turn of the group":         {func(w *world) { w.wants.AutoUpdate = false; w.tick(); w.wants.AutoUpdate = true }, true},
		"a run that another keeps away": {func(w *world) { w.locked(func() { w.tick() }) }, false},
		"find that cannot be reached":   {func(w *world) { w.status = 502; w.tick(); w.status = 200 }, false},
		"enough space":                  {func(w *world) { w.cause(func(c *state.Cause) { c.Need, c.At = 1, "/" }) }, true},
		"too little space":              {func(w *world) { w.cause(func(c *state.Cause) { c.Need, c.At = 1<<60, "/" }) }, false},
		"space elsewhere":               {func(w *world) { w.cause(func(c *state.Cause) { c.Need, c.At = 1, "/proc" }) }, false},
		"another checksum":              {func(w *world) { w.cause(func(c *state.Cause) { c.SHA256 = "bb" }); w.checksum = other }, true},
		"the same checksum":             {func(w *world) { w.cause(func(c *state.Cause) { c.SHA256 = other }); w.checksum = other }, false},
		"a checksum that is not there":  {func(w *world) { w.cause(func(c *state.Cause) { c.SHA256 = other }) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.failFor(130 * time.Minute)
			w.clock = noon.Add(130 * time.Minute)
			tc.change(w)
			tarball := false
			w.tick()
			for path := range w.asked {
				tarball = tarball || !strings.HasSuffix(path, ".sha256")
			}
			if w.checksum == "" && name != "a checksum that is not there" {
				tarball = len(w.asked) > 0
			}
			if tarball != tc.asks {
				t.Errorf("the mirror was asked: %v; want %v (%v)", tarball, tc.asks, w.asked)
			}
		})
	}
}

// What the mirror announces for a tarball that is refused is remembered: another one is
// another release.
func TestABadTarballIsRememberedByWhatWasAnnounced(t *testing.T) {
	w := newWorld(t)
	w.checksum = strings.Repeat("a", 64)
	w.failFor(70 * time.Minute)
	if f := w.ticks().Failing; f == nil || f.Cause.SHA256 != w.checksum {
		t.Errorf("remembered: %+v", f)
	}
	w.clock = noon.Add(70 * time.Minute)
	if asked, _ := w.tick(); asked {
		t.Error("the same tarball is asked for again")
	}
	w.checksum = strings.Repeat("b", 64)
	if asked, err := w.tick(); !asked || err == nil {
		t.Errorf("the other tarball is not asked for: %v", err)
	}
}

func TestFindThatCannotBeReachedFailsNoRunForAnHour(t *testing.T) {
	w := newWorld(t)
	w.wants.AutoUpdate = false
	run := func() error { _, err := w.tick(); w.clock = w.clock.Add(10 * time.Minute); return err }
	must(t, run())
	if r := w.state(); r.State != decision.Waiting || r.Conditions[0].Type != decision.UpdateWaits {
		t.Errorf("before: %s, %+v", r.State, r.Conditions)
	}
	since := w.clock
	for w.status = 502; w.clock.Sub(since) < time.Hour; {
		if err := run(); err != nil {
			t.Errorf("after %v: %v", w.clock.Sub(since), err)
		}
		r := w.state()
		if c := r.Conditions[0]; r.State != decision.Waiting || c.Type != decision.FindUnreachable || c.Since == nil || !c.Since.Equal(since) {
			t.Errorf("after %v: %s, %+v", w.clock.Sub(since), r.State, r.Conditions)
		}
		w.status = 200
		if r := w.state(); r.Conditions[0].Type != decision.UpdateWaits {
			t.Errorf("after %v find answers status, which says %s: %+v", w.clock.Sub(since), r.State, r.Conditions)
		}
		w.status = 502
	}
	for range 2 {
		if err := run(); err == nil {
			t.Error("after an hour a run does not fail")
		}
	}
	if r := w.state(); r.State != decision.Failing || !r.Failing.First.Equal(since) || r.Failing.Count != 8 || r.Failing.NextAttempt != nil {
		t.Errorf("after an hour: %s, %+v", r.State, r.Failing)
	}
	// What find answers to status itself counts, before the next run.
	w.status = 200
	if r := w.state(); r.State == decision.Failing || slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.RunsFail }) {
		t.Errorf("find answers status, which says %s: %+v", r.State, r.Conditions)
	}
	w.status = 502
	w.Machine.Scheduled = false
	if err := run(); err == nil {
		t.Error("a person's command does not fail")
	}
	w.Machine.Scheduled, w.status = true, 200
	must(t, run())
	if r := w.state(); r.State != decision.Waiting || r.Failing != nil || r.Conditions[0].Type != decision.UpdateWaits {
		t.Errorf("at the end: %s, %+v, %+v", r.State, r.Failing, r.Conditions)
	}
	w.status = 502
	w.clock = w.clock.Add(24 * time.Hour) // few runs, as on a host that slept
	for range 3 {
		must(t, run())
	}
}

func TestWhatFailsARunOfTheTimerAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		state  decision.State
	}{
		"an answer with 403":          {func(w *world) { w.status = 403 }, decision.Failing},
		"a version that is none":      {func(w *world) { w.wants.Version = "latest" }, decision.Failing},
		"a template that is none":     {func(w *world) { w.configure("/{{.None}}") }, decision.Failing},
		"find down, and a person":     {func(w *world) { w.status, w.Machine.Scheduled = 502, false }, decision.Waiting},
		"find down, nobody remembers": {func(w *world) { w.status, w.Machine.Host.Paths.RunDir = 502, "" }, decision.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.change(w)
			if _, err := w.tick(); err == nil {
				t.Error("it does not fail")
			}
			if r := w.state(); r.State != tc.state {
				t.Errorf("status: %s, %s", r.State, r.Explanation)
			}
		})
	}
}

// What has a place of its own in status is not told twice.
func TestAFailedVersionIsNoFailingHost(t *testing.T) {
	w := newWorld(t)
	w.failFor(10 * time.Minute)
	m := w.beginTick()
	if m.judge(t.Context(), failure.Refuse("no")) == nil || m.memory.Failing != nil {
		t.Errorf("after a refusal: %+v", m.memory.Failing)
	}
}

func TestAnAgentThatCrashesAgainAndAgainIsSeen(t *testing.T) {
	w := newWorld(t)
	ownProc(t, w.Installer)
	whole(t, w.Installer, version.Release{Version: "1.1.0", Edition: version.OSS}, version.Release{Version: "1.0.0", Edition: version.OSS})
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: w.url, Enabled: true, Pinned: true, ActiveVersion: "1.1.0"}
	c.Status = state.Status{ActiveEdition: version.OSS, PreviousVersion: "1.0.0", PreviousEdition: version.OSS}
	must(t, c.Save(w.Machine.Host.Paths.Config()))
	var restarts uint32
	sub, up := "running", 24*time.Hour
	tick := func() view.Status {
		t.Helper()
		look := sightOf(w.Installer, func(u *systemd.Unit, _ *string) {
			u.NRestarts, u.SubState, u.Since = restarts, sub, w.clock.Add(-up)
			if sub != "running" {
				u.ActiveState = "activating"
			}
		})
		w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := look(ctx)
			shown := a.(seen)
			shown.units = only("teleport-update.timer", func(u *systemd.Unit) { u.NextTrigger = w.clock.Add(time.Minute) })
			return shown, err
		}
		m := w.beginTick()
		_ = m.end(t.Context(), nil)
		w.clock = w.clock.Add(10 * time.Minute)
		return w.state()
	}
	restarts = 2 // of a network that came late
	if r := tick(); r.State != decision.Pinned || r.Unstable != nil {
		t.Errorf("after a boot: %s, %+v", r.State, r.Unstable)
	}
	restarts = 40
	if r := tick(); r.State != decision.Unstable || r.Unstable.Count != 1 || !strings.Contains(r.Explanation, "`teleport-update rollback` goes back to version 1.0.0") {
		t.Errorf("crash loop: %s, %s, %+v", r.State, r.Explanation, r.Unstable)
	}
	sub = "auto-restart"
	if r := tick(); r.Unstable.Count != 2 || !r.Unstable.Since.Equal(noon.Add(10*time.Minute)) || r.Unstable.Restarts != 40 {
		t.Errorf("again: %+v", r.Unstable)
	}
	found, err := w.Verify(t.Context())
	if must(t, err); !slices.ContainsFunc(found, func(f view.Finding) bool { return f.Subject == "agent" && !f.OK }) {
		t.Errorf("verify finds %+v", found)
	}
	sub, up, restarts = "running", time.Second, 41
	if r := tick(); r.Unstable == nil || r.Unstable.Count != 3 {
		t.Errorf("looked at between two crashes: %+v", r.Unstable)
	}
	if r := tick(); r.Unstable == nil || r.Unstable.Count != 3 {
		t.Errorf("looked at again before the next crash: %+v", r.Unstable)
	}
	restarts = 0 // somebody restarted it
	if r := tick(); r.Unstable == nil {
		t.Error("stable before the health window is over")
	}
	up = time.Hour
	if r := tick(); r.State != decision.Pinned || r.Unstable != nil {
		t.Errorf("at the end: %s, %+v", r.State, r.Unstable)
	}
}

// On a host on which updates are off no run counts crashes, and one ends the state that an earlier one noted: else nothing
// but a reboot did.
func TestAnUnstableAgentIsStableAgainWhereUpdatesAreOff(t *testing.T) {
	for name, tc := range map[string]struct {
		agent func(w *world, u *systemd.Unit)
		want  bool
	}{
		"it crashes on":               {func(_ *world, u *systemd.Unit) { u.ActiveState, u.SubState = "activating", "auto-restart" }, true},
		"it was started a moment ago": {func(w *world, u *systemd.Unit) { u.Since = w.clock.Add(-time.Second) }, true},
		"it is healthy":               {func(w *world, u *systemd.Unit) { u.Since = w.clock.Add(-time.Hour) }, false},
		"a person stopped it":         {func(_ *world, u *systemd.Unit) { u.ActiveState, u.SubState = "inactive", "dead" }, false},
	} {
		for _, noted := range []bool{true, false} {
			w := newWorld(t)
			c := state.EmptyConfig()
			c.Spec = state.Spec{Proxy: w.url, ActiveVersion: "1.1.0"}
			c.Status.ActiveEdition = version.OSS
			must(t, c.Save(w.Machine.Host.Paths.Config()))
			if noted {
				m := w.ticks()
				m.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon, Last: noon}
				must(t, m.Save(w.Machine.Host.Paths.Ticks()))
			}
			w.clock = noon.Add(time.Hour)
			w.Machine.Connect = sightOf(w.Installer, func(u *systemd.Unit, _ *string) { tc.agent(w, u) })
			must(t, w.Update(t.Context(), UpdateOptions{}))
			switch is := w.ticks().Unstable; {
			case (is != nil) != (noted && tc.want):
				t.Errorf("%s, noted before: %v; after the run: %+v", name, noted, is)
			case is != nil && is.Count != 2:
				t.Errorf("%s: a run counts: %+v", name, is)
			}
		}
	}
}

// A run that waits says until when, to status and to everybody, and no longer than it
// waits: a killed one cannot take it back.
func TestStatusSaysUntilWhenARunWaits(t *testing.T) {
	w := newWorld(t)
	w.jitter = 60
	began := make(chan struct{})
	w.Jitter = func(time.Duration) time.Duration { close(began); return time.Hour }
	run, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Update(run, UpdateOptions{}) }()
	<-began
	for n := 0; w.ticks().Waiting == nil && n < 10_000; n++ {
		time.Sleep(time.Millisecond)
	}
	until := noon.Add(time.Hour)
	if r := w.state(); r.State != decision.Waiting || r.JitterUntil == nil || !r.JitterUntil.Equal(until) || !strings.Contains(r.Explanation, until.Format(time.RFC3339)) {
		t.Errorf("while it waits: %s, %s, %v", r.State, r.Explanation, r.JitterUntil)
	}
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "while waiting") {
		t.Errorf("it ends with %v", err)
	}
	if r := w.state(); r.JitterUntil != nil {
		t.Errorf("after it: %v", r.JitterUntil)
	}
	summary, err := os.ReadFile(w.Machine.Host.Paths.Summary())
	if must(t, err); !strings.Contains(string(summary), `"jitter_until": "`+until.Format(time.RFC3339)) {
		t.Errorf("the summary is\n%s", summary)
	}
	m := w.ticks()
	m.Waiting = &state.Waiting{PID: os.Getpid(), Start: 1, Until: until}
	must(t, m.Save(w.Machine.Host.Paths.Ticks()))
	if r := w.state(); r.JitterUntil != nil {
		t.Error("a killed run still waits")
	}
}

// What find says of the group of a host stands in status, also while find is out of
// reach.
func TestStatusSaysThatTheGroupIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.wants.GroupUnknown = true
	w.tick()
	for _, status := range []int{200, 502} {
		w.status = status
		if r := w.state(); !slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.GroupUnknown }) {
			t.Errorf("find answers %d: %+v", status, r.Conditions)
		}
	}
	w.wants.GroupUnknown, w.status = false, 200
	if r := w.state(); slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.GroupUnknown }) {
		t.Errorf("the group is known: %+v", r.Conditions)
	}
}
