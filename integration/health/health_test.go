//go:build hosts

package health

import (
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// healthCase is a new version, an old one or a unit, and what has to come of an
// update from 1.0.0 to 1.1.0. What is not said is sound.
type healthCase struct {
	name     string
	old, new release.Spec
	drop     string // more lines for the agent's unit
	readyURL string

	healthy bool // the new version serves in the end, else the old one
	effect  scenes.Effect
	result  state.Result // default: rolled back, or succeeded if it is healthy
	says    []string     // in the journal, to whoever asks why
	silent  []string     // not in the journal
}

// What the journal says, in parts.
const (
	shortWindow = "the health window is shorter than it takes to see a slow crash loop"
	takesOver   = "the agent is healthy version=1.1.0 restarted=false"
	runs        = "the agent is healthy version=1.1.0 restarted=true"
	noEffect    = "the reload did not bring the new version; the agent has to be restarted"
	servesOn    = "the process of the new version died; the version before serves on"
	diedLater   = "the process of the new version died"
	exitsWith1  = "the agent exited with status 1"
	exitsWith0  = "the agent exited by itself (status 0, but a service has to stay)"
	aboutTo     = "and systemd is about to restart it"
	restoring   = "restoring the agent's database"
	notTouched  = "switching from=1.0.0 to=1.1.0"
	ownDatabase = "the agent is restarted on its own database"
)

func healthCases() []healthCase {
	like := func(v stamp.Variant) release.Spec { return release.Spec{Variant: v} }
	in := func(u release.Unit, v stamp.Variant) release.Spec { return release.Spec{Variant: v, Unit: u} }
	// systemd tells how an agent ended until it starts it again: a pause as long as
	// Teleport's, so that a slow machine is in time to ask.
	const pause = 5 * time.Second
	restarts := release.Unit{NoReload: true, RestartDelay: pause}
	notify := release.Unit{Type: "notify"}
	always := release.Unit{Restart: "always"}
	slowStop := release.Unit{NoReload: true, StopTimeout: time.Second}
	return []healthCase{
		// The new version, when the old one hands over to it.
		{name: "sound", healthy: true, effect: scenes.HandedOver, says: []string{takesOver, shortWindow}, silent: []string{noEffect}},
		{name: "unrunnable", new: like(stamp.Unrunnable), effect: scenes.InPeace, result: state.FailedEarly,
			says: []string{"version 1.1.0", "on this host", "this release cannot run"}, silent: []string{notTouched}},
		{name: "exits at start", new: like(stamp.ExitsAtStart), effect: scenes.InPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "exits with 0", new: like(stamp.ExitsZero), effect: scenes.InPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "migrates, then exits", new: release.Spec{Variant: stamp.MigratesThenExits, Schema: 2}, effect: scenes.Restarted,
			says: []string{diedLater, ownDatabase, restoring}},
		{name: "crashes after two seconds", new: like(stamp.CrashLoops), effect: scenes.Restarted, says: []string{restoring}},
		{name: "crashes after two seconds, old one drains", old: like(stamp.Drains), new: like(stamp.CrashLoops), effect: scenes.Restarted, says: []string{restoring}},
		{name: "never ready, and nobody asks", new: like(stamp.NeverReady), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "never ready, with a ready URL", new: like(stamp.NeverReady), readyURL: scenes.ReadyURL, effect: scenes.Restarted,
			says: []string{"the agent is not ready: http://127.0.0.1:3000/readyz answers 503"}},
		{name: "sound, with a ready URL", readyURL: scenes.ReadyURL, healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "hangs on stop", new: like(stamp.HangsOnStop), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "hangs on stop, and has to go", new: in(release.Unit{StopTimeout: time.Second}, stamp.HangsOnStop), readyURL: "http://127.0.0.1:3999/", effect: scenes.Restarted,
			says: []string{"the agent is not ready: http://127.0.0.1:3999/ does not answer", restoring}},
		{name: "dies on reload", new: like(stamp.DiesOnReload), effect: scenes.InPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "handover dies", new: like(stamp.HandoverDies), effect: scenes.InPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "handover dies, and has migrated", new: release.Spec{Variant: stamp.HandoverDies, Schema: 2}, effect: scenes.Restarted,
			says: []string{diedLater, ownDatabase, restoring}},
		{name: "handover dies late", new: like(stamp.HandoverDiesLate), effect: scenes.Restarted, says: []string{diedLater}, silent: []string{servesOn}},
		// systemd follows the PID file to a process that is not its child.
		{name: "handover dies late, systemd has followed it", new: like(stamp.HandoverDiesLate), drop: scenes.UntilTakenOver, effect: scenes.Restarted,
			says: []string{diedLater}, silent: []string{servesOn}},
		{name: "ignores the next reload", new: like(stamp.IgnoresReload), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "would execute itself", new: like(stamp.ReexecutesItself), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "would drain", new: like(stamp.Drains), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},

		// The old version, which is told to hand over.
		{name: "old one ignores the reload", old: like(stamp.IgnoresReload), healthy: true, effect: scenes.Restarted, says: []string{noEffect, runs}},
		{name: "old one executes itself again", old: like(stamp.ReexecutesItself), healthy: true, effect: scenes.Restarted, says: []string{noEffect, runs}},
		{name: "old one ignores the reload, new one exits", old: like(stamp.IgnoresReload), new: in(release.Unit{RestartDelay: pause}, stamp.ExitsAtStart), effect: scenes.Restarted,
			says: []string{noEffect, exitsWith1}},
		{name: "old one drains", old: like(stamp.Drains), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "old one dies while the new one starts", new: like(stamp.HandoverDies), healthy: true, effect: scenes.Restarted, says: []string{noEffect, runs},
			drop: "ExecReload=/bin/sh -c 'until pgrep -P $MAINPID; do sleep 0.02; done; sleep 0.2; kill -KILL $MAINPID'"},
		{name: "old one hangs on stop", old: like(stamp.HangsOnStop), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},

		// Units that cannot reload, and other kinds.
		{name: "no reload, sound", old: in(restarts, stamp.Sound), new: in(restarts, stamp.Sound), healthy: true, effect: scenes.Restarted, says: []string{runs}},
		{name: "no reload any more, sound", new: in(restarts, stamp.Sound), healthy: true, effect: scenes.Restarted, says: []string{runs}},
		{name: "no reload, exits at start", new: in(restarts, stamp.ExitsAtStart), effect: scenes.Restarted, says: []string{exitsWith1, restoring}},
		{name: "no reload, exits with 0", new: in(restarts, stamp.ExitsZero), effect: scenes.Restarted, says: []string{exitsWith0}},
		{name: "no reload, migrates, then exits", new: release.Spec{Variant: stamp.MigratesThenExits, Schema: 2, Unit: restarts}, effect: scenes.Restarted,
			says: []string{exitsWith1, restoring}},
		{name: "no reload, crashes after two seconds", new: in(restarts, stamp.CrashLoops), effect: scenes.Restarted, says: []string{exitsWith1, aboutTo}},
		{name: "no reload, handover dies", new: in(restarts, stamp.HandoverDies), healthy: true, effect: scenes.Restarted, says: []string{runs}},
		{name: "no reload, dies on reload", new: in(restarts, stamp.DiesOnReload), effect: scenes.Restarted, says: []string{exitsWith1}},
		{name: "no reload, old one hangs on stop", old: in(slowStop, stamp.HangsOnStop), new: in(slowStop, stamp.Sound), healthy: true, effect: scenes.Restarted,
			says: []string{runs}},
		{name: "notify, sound", old: in(notify, stamp.Sound), new: in(notify, stamp.Sound), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "notify, exits at start", old: in(notify, stamp.Sound), new: in(notify, stamp.ExitsAtStart), effect: scenes.InPeace, says: []string{servesOn}},
		{name: "notify, no reload, exits at start", new: in(release.Unit{Type: "notify", NoReload: true, RestartDelay: pause}, stamp.ExitsAtStart), effect: scenes.Restarted,
			says: []string{"the agent did not start: it exited with status 1"}},
		{name: "restart always, sound", old: in(always, stamp.Sound), new: in(always, stamp.Sound), healthy: true, effect: scenes.HandedOver, says: []string{takesOver}},
		{name: "restart always, no reload, exits with 0", new: in(release.Unit{Restart: "always", NoReload: true, RestartDelay: pause}, stamp.ExitsZero), effect: scenes.Restarted,
			says: []string{exitsWith0, aboutTo}},
	}
}

func TestTheHealthWatchDecides(t *testing.T) {
	t.Parallel()
	for _, c := range healthCases() {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			if c.drop != "" {
				s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+c.drop+"\n")
			}
			c.old.Version, c.new.Version = "1.0.0", "1.1.0"
			s.Release(c.old)
			s.Release(c.new)
			var more []string
			if c.readyURL != "" {
				more = []string{"--ready-url", c.readyURL}
			}
			s.RunsOn("1.0.0", more...)
			var user *scenes.Session
			if c.effect != scenes.Restarted {
				user = s.OpenSession()
			}
			from, rows := s.Seen(), s.Live()

			s.Wants("1.1.0")
			r := s.Try(updater, "update")

			serving, code := "1.0.0", 1
			if c.healthy {
				serving, code = "1.1.0", 0
			}
			if r.Code != code {
				t.Errorf("exit code %d; want %d", r.Code, code)
			}
			s.Serves(serving)
			if got := from.Became(s.Seen()); got != c.effect {
				t.Errorf("the agent's unit was %s; want %s", got, c.effect)
			}
			if user != nil {
				user.GoesOn("1.0.0 " + from.PID)
			}
			s.explains(c, r)
			s.Lost(rows, serving)
			s.Tidy()
		})
	}
}

// explains asserts what a person gets to know.
func (s *scene) explains(c healthCase, r host.Result) {
	s.T.Helper()
	log := s.Logged()
	for _, words := range c.says {
		if !strings.Contains(log, words) {
			s.T.Errorf("the journal does not say %q:\n%s", words, log)
		}
	}
	for _, words := range append(c.silent, "<nil>", "panic") {
		if strings.Contains(log, words) {
			s.T.Errorf("the journal says %q:\n%s", words, log)
		}
	}
	got := s.Status()
	if scenes.Text(got.LastTarget) != "1.1.0" {
		s.T.Errorf("status: the last target is %s", scenes.Text(got.LastTarget))
	}
	if c.healthy {
		if got.State != decision.Idle || scenes.Text(got.LastResult) != string(state.Succeeded) || got.LastError != nil ||
			got.FailedVersion != nil || got.FailedAttempts != nil || got.NextAttempt != nil || got.Unproven {
			s.T.Errorf("status after an update to a healthy version: %+v", got)
		}
		return
	}
	result := c.result
	if result == "" {
		result = state.RolledBack
		if !strings.Contains(r.Stderr, "version 1.1.0 was not healthy and was rolled back") || !strings.Contains(r.Stderr, "the agent is on version 1.0.0") {
			s.T.Errorf("the command does not say how it ended:\n%s", r.Stderr)
		}
	}
	if got.State != decision.BackingOff || scenes.Text(got.LastResult) != string(result) || scenes.Text(got.FailedVersion) != "1.1.0" ||
		got.FailedAttempts == nil || *got.FailedAttempts != 1 || got.LastError == nil || !strings.Contains(log, *got.LastError) {
		s.T.Errorf("status: %s, last result %s, failed %s, error %s", got.State, scenes.Text(got.LastResult), scenes.Text(got.FailedVersion), scenes.Text(got.LastError))
	}
	if got.NextAttempt == nil || !scenes.Near(time.Until(*got.NextAttempt), time.Hour) {
		s.T.Errorf("status: the next attempt is at %v", got.NextAttempt)
	}
}
