//go:build hosts

package health

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// failing enables 1.0.0, which does not work, starts it and returns when the
// unit is in a state. Where that is the pause before another start, it is as long
// as Teleport's: systemd gives up after five, and short ones are easily missed.
func (s *scene) failing(variant stamp.Variant, state string) {
	s.T.Helper()
	spec := release.Spec{Version: "1.0.0", Variant: variant, CrashAfter: 500 * time.Millisecond}
	if strings.HasSuffix(state, "auto-restart") {
		spec.Unit.RestartDelay = 5 * time.Second
	}
	s.Release(spec)
	s.Wants("1.0.0")
	s.Enable()
	s.Must("systemctl", "enable", "--now", "teleport")
	host.Wait(s.T, patience, func() error {
		unit, err := s.Unit(s.T.Context(), "teleport")
		if got := unit["ActiveState"] + "/" + unit["SubState"]; err == nil && !strings.HasPrefix(got, state) {
			return fmt.Errorf("the agent is %s", got)
		}
		return err
	})
}

func TestAnUpdateHelpsAnAgentThatFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		variant stamp.Variant
		state   string
	}{
		{"given up by systemd", stamp.ExitsAtStart, "failed"},
		{"waiting to be restarted", stamp.CrashLoops, "activating/auto-restart"},
		{"running between two crashes", stamp.CrashLoops, "active/running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.failing(tc.variant, tc.state)
			s.Sound("1.1.0")
			s.Wants("1.1.0")
			s.Must(updater, "update")
			s.Serves("1.1.0")
			if r := s.Status(); r.State != decision.Idle || scenes.Text(r.LastResult) != "succeeded" || r.Unproven {
				t.Errorf("status: %s, last result %s, unproven %v", r.State, scenes.Text(r.LastResult), r.Unproven)
			}
			s.Tidy()
		})
	}
}

// systemd cannot tell an agent that left with 0 from one that was asked to: it is
// left alone.
func TestAnAgentThatLeftByItselfIsLeftAlone(t *testing.T) {
	s := newScene(t)
	s.failing(stamp.ExitsZero, "inactive/dead")
	s.Sound("1.1.0")
	s.Wants("1.1.0")
	s.Fails(4, "the agent is enabled at boot and does not run", updater, "update")
	s.Linked("1.1.0")
	if state, r := s.Show("teleport", "ActiveState"), s.Status(); state != "inactive" || !r.Unproven {
		t.Errorf("the agent is %s, unproven %v", state, r.Unproven)
	}
}

// A person's update starts an agent that died, and does not end well while the agent is down.
func TestUpdateStartsAnAgentThatFailed(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nRestart=no\n")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	dies := func() {
		t.Helper()
		s.Must("systemctl", "kill", "--signal=KILL", "teleport")
		host.Wait(t, scenes.Patience, func() error {
			if now := s.Show("teleport", "ActiveState"); now != "failed" {
				return fmt.Errorf("the agent is %s", now)
			}
			return nil
		})
	}
	dies()
	if said := s.Must(updater, "update", "--dry-run"); !strings.Contains(said, "Agent:     started, for it failed\n") {
		t.Errorf("the dry run says\n%s", said)
	}
	s.Must(updater, "update")
	s.Serves("1.0.0")
	s.StatusIs("idle")

	sound := s.Read("/etc/teleport.yaml")
	dies()
	s.Write("/etc/teleport.yaml", "{[ broken\n")
	s.Fails(4, "the agent was restarted and is not healthy", updater, "update")
	s.Write("/etc/teleport.yaml", sound)
	s.Must(updater, "update")
	s.Serves("1.0.0")

	s.Must("systemctl", "stop", "teleport")
	s.Fails(4, "the agent is enabled at boot and does not run", updater, "update")
	if now := s.Show("teleport", "ActiveState"); now != "inactive" {
		t.Errorf("a person stopped the agent, and it is %s", now)
	}
	s.Must(updater, "disable")
	s.Fails(4, "the agent is enabled at boot and does not run", updater, "update")
}

func TestAnAgentThatFailsBeforeAndAfterIsAsItWas(t *testing.T) {
	s := newScene(t)
	s.failing(stamp.ExitsAtStart, "failed")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.Wants("1.1.0")
	s.Fails(1, "version 1.1.0 was not healthy and was rolled back", updater, "update")
	s.Linked("1.0.0")
	if log := s.Logged(); !strings.Contains(log, "the agent fails as it did before the transaction") {
		t.Errorf("the journal does not tell whose fault it is:\n%s", log)
	}
	s.BacksOff("1.1.0", 1, time.Hour)
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}

	s.Sound("1.2.0")
	s.Wants("1.2.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick with a version that works ends with %d", code)
	}
	s.Serves("1.2.0")
}

// Both versions fail for a reason that is neither's: a configuration that was
// broken while the agent ran.
func TestAnOldVersionThatDoesNotHoldEither(t *testing.T) {
	t.Parallel()
	const sound, broken = "stand_in: {rows_per_second: 3}\n", "stand_in: {rows_per_second: 5000}\n"
	broke := func(t *testing.T) *scene {
		s := newScene(t)
		for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
			// A pause long enough for systemd to be asked how the agent ended.
			s.Release(release.Spec{Version: v, Unit: release.Unit{NoReload: true, RestartDelay: 5 * time.Second}})
		}
		s.RunsOn("1.0.0")
		s.Write("/etc/teleport.yaml", broken)
		s.Wants("1.1.0")
		s.Fails(4, "rolling back failed: the old version was put back but is not healthy", updater, "update")
		if r := s.Status(); r.State != decision.NeedsAttention || r.OpenTransaction == nil || r.OpenTransaction.Phase != "restored" ||
			!strings.Contains(r.Explanation, "the version before is not healthy either") {
			t.Errorf("status: %s, %s, open transaction %+v", r.State, r.Explanation, r.OpenTransaction)
		}
		return s
	}
	t.Run("and is mended by a person", func(t *testing.T) {
		s := broke(t)
		s.Write("/etc/teleport.yaml", sound)
		if code := s.Tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.Serves("1.0.0")
		s.BacksOff("1.1.0", 1, time.Hour)
	})
	t.Run("and is not mended", func(t *testing.T) {
		s := broke(t)
		if code := s.Tick(); code != 0 {
			t.Errorf("the next tick ends with %d", code)
		}
		s.Linked("1.0.0")
		s.BacksOff("1.1.0", 1, time.Hour)
		if r := s.Status(); !strings.Contains(scenes.Text(r.LastError), "and the version before is not healthy either: teleport.service: the agent exited with status 1") {
			t.Errorf("status: last error %s", scenes.Text(r.LastError))
		}

		// Nothing keeps another version away.
		s.Write("/etc/teleport.yaml", sound)
		s.Wants("1.2.0")
		if code := s.Tick(); code != 0 {
			t.Errorf("the tick with another version ends with %d", code)
		}
		s.Serves("1.2.0")
	})
}

func TestAnAgentThatAPersonStoppedStaysStopped(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{"at the first try": "inactive", "and killed": "failed", "and killed, after a crash": "failed"} {
		t.Run("stopped "+name, func(t *testing.T) {
			s := newScene(t)
			another := func(before string) {
				t.Helper()
				host.Wait(t, scenes.Patience, func() error {
					if now := s.Show("teleport", "MainPID"); now == before || now == "0" {
						return fmt.Errorf("systemd's main process is %s", now)
					} else if pid, err := s.ReadFile("/run/teleport.pid"); err != nil || strings.TrimSpace(string(pid)) != now {
						return fmt.Errorf("the PID file, by which a reload finds process %s, has %q: %v", now, pid, err)
					}
					return nil
				})
			}
			s.Sound("1.1.0", "1.2.0")
			if left == "inactive" {
				s.Sound("1.0.0")
				s.RunsOn("1.0.0")
			} else {
				// systemd kills a process at once that a reload has started, or one that hangs
				// in the end.
				s.Release(release.Spec{Version: "1.0.0", Variant: stamp.HangsOnStop, Unit: release.Unit{StopTimeout: time.Second}})
				s.RunsOn("1.0.0")
				if strings.HasSuffix(name, "crash") {
					before := s.Show("teleport", "MainPID")
					s.Must("kill", "-KILL", before)
					another(before)
				}
				before := s.Show("teleport", "MainPID")
				s.Must("systemctl", "reload", "teleport")
				another(before)
			}
			s.Must("systemctl", "stop", "teleport")
			stays := func() {
				t.Helper()
				if state := s.Show("teleport", "ActiveState"); state != left {
					t.Errorf("the agent is %s", state)
				}
			}
			stays()
			if code := s.Tick(); code != 0 {
				t.Errorf("a tick ends with %d", code)
			}
			stays()
			s.Wants("1.1.0")
			s.Fails(4, "the agent is enabled at boot and does not run", updater, "update")
			s.Linked("1.1.0")
			stays()
			r := s.Status()
			if !r.Unproven || r.State != decision.NeedsAttention || scenes.Text(r.LastResult) != "succeeded" || r.Unstable != nil {
				t.Errorf("status: unproven %v, %s, last result %s, unstable %v", r.Unproven, r.State, scenes.Text(r.LastResult), r.Unstable)
			}
			if code := s.Tick(); code != 0 {
				t.Errorf("the next tick ends with %d", code)
			}
			stays()
			s.Must("systemctl", "start", "teleport")
			s.Serves("1.1.0")
			s.Wants("1.2.0")
			s.Must(updater, "update")
			s.Serves("1.2.0")
			if r := s.Status(); r.Unproven {
				t.Error("a version that was watched counts as unproven")
			}
		})
	}
}

func TestARestartBySomebodyElseIsNotTheVersionsFault(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"restart", "reload"} {
		t.Run(verb, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			var meanwhile atomic.Bool
			s.RunsOn("1.0.0", "--ready-url", s.readyOnce(&meanwhile))
			s.Wants("1.1.0")
			update := s.Background(host.Command{Args: []string{updater, "update"}})
			s.Watched("1.1.0")
			s.Must("systemctl", verb, "teleport")
			meanwhile.Store(true)
			s.Ends(update, 0)
			s.Serves("1.1.0")
			if log := s.Logged(); !strings.Contains(log, "somebody else restarted or reloaded the agent; its watch begins again") {
				t.Errorf("the journal does not say why it took longer:\n%s", log)
			}
		})
	}
}

func TestAnAgentThatAPersonStopsDuringTheWatchStaysStopped(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	update := s.MidWatch("1.1.0")
	s.Must("systemctl", "stop", "teleport")
	s.Ends(update, 1)
	s.Linked("1.0.0")
	s.Down("after a stop during the watch")
	r := s.Status()
	if scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil || !strings.Contains(scenes.Text(r.LastError), "was stopped by somebody else while it was being watched") {
		t.Errorf("status: last result %s, failed %s, error %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion), scenes.Text(r.LastError))
	}

	// It does not run, so there is nothing to watch: the version counts.
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.Linked("1.1.0")
	s.Must("systemctl", "start", "teleport")
	s.Serves("1.1.0")
}

// readyOnce is a ready URL that answers 200 once that is true: what a test does
// before comes in a watch, which is not over at the end of its short window.
func (s *scene) readyOnce(is *atomic.Bool) (url string) {
	s.T.Helper()
	const address = "127.0.0.1:3001"
	go http.Serve(cluster.Loopback(s.T, s.Test, address), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !is.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	return "http://" + address + "/"
}

// Somebody broke the link of the agent, which then came to its limit of starts: systemd
// does not start it again once the link is back, and the next run does.
func TestAnAgentThatSystemdGaveUpIsStartedOnceItsLinkIsBack(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"the run", "who broke it", "the run, and systemd does not restart it"} {
		t.Run(by, func(t *testing.T) {
			s := newScene(t)
			s.Release(release.Spec{Version: "1.0.0"})
			s.Wants("1.0.0")
			s.Enable()
			s.Must("systemctl", "enable", "--now", "teleport")
			s.Serves("1.0.0")
			if strings.HasSuffix(by, "not restart it") {
				s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\nRestart=no\n")
				s.Must("systemctl", "daemon-reload")
			}
			s.Must("ln", "-sfn", "/nowhere", scenes.LinkDir+"/teleport")
			s.Try("systemctl", "restart", "teleport")
			host.Wait(t, patience, func() error {
				if got := s.Show("teleport", "ActiveState"); got != "failed" {
					return fmt.Errorf("the agent is %s", got)
				}
				return nil
			})
			if by == "who broke it" {
				s.Must("ln", "-sfn", scenes.Programs+"/1.0.0/bin/teleport", scenes.LinkDir+"/teleport")
			}
			if code := s.Tick(); code != 0 {
				t.Errorf("the run ends with %d", code)
			}
			s.Serves("1.0.0")
		})
	}
}
