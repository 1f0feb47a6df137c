package installer

import (
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// A version that crashes is left for the one before if the policy allows that.
func TestTheTimerDoesNotGoBackBelowTheMinimum(t *testing.T) {
	_, public := signingKey(t)
	for name, tc := range map[string]struct {
		policy map[string]string
		want   int
	}{
		"below the minimum":  {map[string]string{"policy.yaml": "minimum: 1.1.0\n"}, 0},
		"unsigned on disk":   {map[string]string{"keys.d/a.pem": public}, 0},
		"the minimum itself": {map[string]string{"policy.yaml": "minimum: 1.0.0\n"}, 1},
		"without a policy":   {nil, 1},
		"another digest":     {map[string]string{"policy.yaml": "releases: {1.0.0: " + strings.Repeat("a", 64) + "}\n"}, 0},
		"broken":             {map[string]string{"policy.yaml": "minimum: newest\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := back(t)
			n := s.counts()
			s.Installer.owner(t, tc.policy)
			s.crashes().goBack(t.Context())
			c, err := s.Machine.Host.Paths.LoadConfig()
			must(t, err)
			if *n != tc.want || (c.Status.Left != nil) != (tc.want > 0) {
				t.Errorf("%d transactions; the version counts as left: %+v; want %d", *n, c.Status.Left, tc.want)
			}
		})
	}
}

// A rollback that the policy refuses stands where other refusals do, is an error once, and is made
// once the policy allows it: the next run of the timer tries again.
func TestARollbackThatThePolicyRefusesIsSaidOnce(t *testing.T) {
	_, public := signingKey(t)
	for name, tc := range map[string]struct {
		policy    map[string]string
		why, help string
	}{
		"below the minimum": {map[string]string{"policy.yaml": "minimum: 1.1.0\n"}, "below 1.1.0", "`teleport-update rollback --below-minimum`"},
		"unsigned on disk":  {map[string]string{"keys.d/a.pem": public}, "a rollback fetches nothing", "`teleport-update pin 1.0.0 --allow-downgrade` fetches it again"},
		"broken":            {map[string]string{"policy.yaml": "minimum: newest\n"}, "cannot be relied on", "repair the policy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := back(t)
			n := s.counts()
			s.Installer.owner(t, tc.policy)
			for run := range 3 {
				s.Machine.Now = func() time.Time { return noon.Add(time.Duration(run) * 10 * time.Minute) }
				s.Started = s.Machine.Now()
				tick := s.crashes()
				err := tick.goBack(t.Context())
				if refused := failure.Is[*failure.RefusedError](err); refused != (run == 0) || run > 0 && err != nil {
					t.Errorf("run %d ends with %v", run, err)
				}
				must(t, tick.memory.Save(s.Machine.Host.Paths.Ticks()))
				s.chronicle().addEnded(configOf(t, s.Installer), "update")
			}
			r, err := s.Status(t.Context(), StatusOptions{Offline: true})
			must(t, err)
			about := ""
			for _, c := range r.Conditions {
				if c.Type == decision.AgentUnstable {
					about = c.Message
				}
			}
			c, err := s.Machine.Host.Paths.LoadConfig()
			must(t, err)
			h, err := s.History()
			must(t, err)
			said := map[string]string{"status": about, "reports": s.heartbeats().heartbeat(c, c.Spec).Outcome.Error}
			if len(h.Ended) == 1 {
				said["history"] = h.Ended[0].Error
			} else {
				t.Errorf("the history has %+v", h.Ended)
			}
			for where, text := range said {
				if !strings.Contains(text, tc.why) || !strings.Contains(text, tc.help) {
					t.Errorf("%s: %q; want %q and %q", where, text, tc.why, tc.help)
				}
			}
			if *n > 0 {
				t.Fatalf("%d transactions", *n)
			}
			s.Installer.owner(t, map[string]string{"policy.yaml": "signatures: off\n"})
			if err := s.crashes().goBack(t.Context()); err != nil || *n != 1 {
				t.Errorf("once it is allowed: %d transactions, %v", *n, err)
			}
		})
	}
}

// What helps is typed: the refusal of an unsigned version names two commands.
func TestRootGoesBackToAnUnsignedVersion(t *testing.T) {
	s := back(t)
	n := s.counts()
	_, public := signingKey(t)
	s.Installer.owner(t, map[string]string{"keys.d/a.pem": public})
	if err := s.Rollback(t.Context(), RollbackOptions{}); err != nil || *n != 1 {
		t.Errorf("%d transactions, %v", *n, err)
	}
}

// The run of the timer ends with the refusal, as with that of an update.
func TestTheRunOfTheTimerEndsWithARefusedRollback(t *testing.T) {
	s := back(t)
	s.Machine.Now = func() time.Time { return noon }
	s.Installer.owner(t, map[string]string{"policy.yaml": "minimum: 1.1.0\n"})
	tree, _, err := s.Machine.Active(s.c)
	must(t, err)
	must(t, s.Machine.Host.Repair(tree)) // else the host is what keeps it from starting
	s.Machine.Connect = sightOf(s.Installer, func(u *systemd.Unit, executes *string) {
		u.ActiveState, u.SubState, u.NRestarts, *executes = "activating", "auto-restart", 31, ""
	})
	for run, want := range []string{"below 1.1.0", ""} {
		tick := s.crashes()
		err := tick.end(t.Context(), nil)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || !strings.Contains(tick.memory.Error, want) {
			t.Errorf("run %d ends with %v, and remembers %q; want %q", run, err, tick.memory.Error, want)
		}
	}
}
