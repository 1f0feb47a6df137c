//go:build hosts

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"teleport-update/installer"
	"teleport-update/installer/state"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// effect is what an update did to the agent's unit.
type effect string

const (
	inPeace    effect = "left in peace" // the same run, the same process
	handedOver effect = "handed over"   // the same run, another process
	restarted  effect = "restarted"     // another run
)

// healthCase is a new version, an old one or a unit, and what has to come of an
// update from 1.0.0 to 1.1.0. What is not said is sound.
type healthCase struct {
	name     string
	old, new release.Spec
	drop     string // more lines for the agent's unit
	readyURL string

	holds  bool // the new version serves in the end, else the old one
	effect effect
	result state.Result // default: rolled back, or succeeded if it holds
	says   []string     // in the journal, to whoever asks why
	silent []string     // not in the journal
}

// untilTakenOver has a reload last until another process has the PID file, so that
// systemd learns of that one while the one before lives.
const untilTakenOver = `ExecReload=/bin/sh -c 'while [ "$(cat /run/teleport.pid)" = $MAINPID ]; do sleep 0.02; done'`

const readyURL = "http://127.0.0.1:3000/readyz"

// What the journal says, in parts.
const (
	shortWindow = "the health window is shorter than it takes to see a slow crash loop"
	takesOver   = "the agent holds version=1.1.0 restarted=false"
	runs        = "the agent holds version=1.1.0 restarted=true"
	noEffect    = "the reload did not bring the new version; restarting the agent"
	servesOn    = "the process of the new version died; the version before serves on"
	diedLater   = "the process of the new version died"
	exitsWith1  = "the agent exited with status 1"
	exitsWith0  = "the agent exited by itself (status 0, but a service has to stay)"
	aboutTo     = "and systemd is about to restart it"
	restoring   = "restoring the agent's database"
	notTouched  = "switching from=1.0.0 to=1.1.0"
	ownDatabase = "changed the database under the old one; the agent is restarted on its own database"
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
		{name: "sound", holds: true, effect: handedOver, says: []string{takesOver, shortWindow}, silent: []string{noEffect}},
		{name: "unrunnable", new: like(stamp.Unrunnable), effect: inPeace, result: state.FailedEarly,
			says: []string{"version 1.1.0", "on this host", "this release cannot run"}, silent: []string{notTouched}},
		{name: "exits at start", new: like(stamp.ExitsAtStart), effect: inPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "exits with 0", new: like(stamp.ExitsZero), effect: inPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "migrates, then exits", new: release.Spec{Variant: stamp.MigratesThenExits, Schema: 2}, effect: restarted,
			says: []string{diedLater, ownDatabase, restoring}},
		{name: "crashes after two seconds", new: like(stamp.CrashLoops), effect: restarted, says: []string{restoring}},
		{name: "crashes after two seconds, old one drains", old: like(stamp.Drains), new: like(stamp.CrashLoops), effect: restarted, says: []string{restoring}},
		{name: "never ready, and nobody asks", new: like(stamp.NeverReady), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "never ready, with a ready URL", new: like(stamp.NeverReady), readyURL: readyURL, effect: restarted,
			says: []string{"the agent is not ready: http://127.0.0.1:3000/readyz answers 503"}},
		{name: "sound, with a ready URL", readyURL: readyURL, holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "hangs on stop", new: like(stamp.HangsOnStop), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "hangs on stop, and has to go", new: in(release.Unit{StopTimeout: time.Second}, stamp.HangsOnStop), readyURL: "http://127.0.0.1:3999/", effect: restarted,
			says: []string{"the agent is not ready: http://127.0.0.1:3999/ does not answer", restoring}},
		{name: "dies on reload", new: like(stamp.DiesOnReload), effect: inPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "handover dies", new: like(stamp.HandoverDies), effect: inPeace, says: []string{servesOn}, silent: []string{restoring}},
		{name: "handover dies, and has migrated", new: release.Spec{Variant: stamp.HandoverDies, Schema: 2}, effect: restarted,
			says: []string{diedLater, ownDatabase, restoring}},
		{name: "handover dies late", new: like(stamp.HandoverDiesLate), effect: restarted, says: []string{diedLater}, silent: []string{servesOn}},
		// systemd follows the PID file to a process that is not its child.
		{name: "handover dies late, systemd has followed it", new: like(stamp.HandoverDiesLate), drop: untilTakenOver, effect: restarted,
			says: []string{diedLater}, silent: []string{servesOn}},
		{name: "ignores the next reload", new: like(stamp.IgnoresReload), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "would execute itself", new: like(stamp.ReexecutesItself), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "would drain", new: like(stamp.Drains), holds: true, effect: handedOver, says: []string{takesOver}},

		// The old version, which is told to hand over.
		{name: "old one ignores the reload", old: like(stamp.IgnoresReload), holds: true, effect: restarted, says: []string{noEffect, runs}},
		{name: "old one executes itself again", old: like(stamp.ReexecutesItself), holds: true, effect: restarted, says: []string{noEffect, runs}},
		{name: "old one ignores the reload, new one exits", old: like(stamp.IgnoresReload), new: in(release.Unit{RestartDelay: pause}, stamp.ExitsAtStart), effect: restarted,
			says: []string{noEffect, exitsWith1}},
		{name: "old one drains", old: like(stamp.Drains), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "old one dies while the new one starts", new: like(stamp.HandoverDies), holds: true, effect: restarted, says: []string{noEffect, runs},
			drop: "ExecReload=/bin/sh -c 'until pgrep -P $MAINPID; do sleep 0.02; done; sleep 0.2; kill -KILL $MAINPID'"},
		{name: "old one hangs on stop", old: like(stamp.HangsOnStop), holds: true, effect: handedOver, says: []string{takesOver}},

		// Units that cannot reload, and other kinds.
		{name: "no reload, sound", old: in(restarts, stamp.Sound), new: in(restarts, stamp.Sound), holds: true, effect: restarted, says: []string{runs}},
		{name: "no reload any more, sound", new: in(restarts, stamp.Sound), holds: true, effect: restarted, says: []string{runs}},
		{name: "no reload, exits at start", new: in(restarts, stamp.ExitsAtStart), effect: restarted, says: []string{exitsWith1, restoring}},
		{name: "no reload, exits with 0", new: in(restarts, stamp.ExitsZero), effect: restarted, says: []string{exitsWith0}},
		{name: "no reload, migrates, then exits", new: release.Spec{Variant: stamp.MigratesThenExits, Schema: 2, Unit: restarts}, effect: restarted,
			says: []string{exitsWith1, restoring}},
		{name: "no reload, crashes after two seconds", new: in(restarts, stamp.CrashLoops), effect: restarted, says: []string{exitsWith1, aboutTo}},
		{name: "no reload, handover dies", new: in(restarts, stamp.HandoverDies), holds: true, effect: restarted, says: []string{runs}},
		{name: "no reload, dies on reload", new: in(restarts, stamp.DiesOnReload), effect: restarted, says: []string{exitsWith1}},
		{name: "no reload, old one hangs on stop", old: in(slowStop, stamp.HangsOnStop), new: in(slowStop, stamp.Sound), holds: true, effect: restarted,
			says: []string{runs}},
		{name: "notify, sound", old: in(notify, stamp.Sound), new: in(notify, stamp.Sound), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "notify, exits at start", old: in(notify, stamp.Sound), new: in(notify, stamp.ExitsAtStart), effect: inPeace, says: []string{servesOn}},
		{name: "notify, no reload, exits at start", new: in(release.Unit{Type: "notify", NoReload: true, RestartDelay: pause}, stamp.ExitsAtStart), effect: restarted,
			says: []string{"the agent did not start: it exited with status 1"}},
		{name: "restart always, sound", old: in(always, stamp.Sound), new: in(always, stamp.Sound), holds: true, effect: handedOver, says: []string{takesOver}},
		{name: "restart always, no reload, exits with 0", new: in(release.Unit{Restart: "always", NoReload: true, RestartDelay: pause}, stamp.ExitsZero), effect: restarted,
			says: []string{exitsWith0, aboutTo}},
	}
}

func TestTheHealthWatchDecides(t *testing.T) {
	for _, c := range healthCases() {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			if c.drop != "" {
				s.Write("/etc/systemd/system/teleport.service.d/50-test.conf", "[Service]\n"+c.drop+"\n")
			}
			c.old.Version, c.new.Version = "1.0.0", "1.1.0"
			s.release(c.old)
			s.release(c.new)
			var more []string
			if c.readyURL != "" {
				more = []string{"--ready-url", c.readyURL}
			}
			s.running("1.0.0", more...)
			var user *session
			if c.effect != restarted {
				user = s.openSession()
			}
			from, rows := s.seen(), s.database()

			s.wants("1.1.0")
			r := s.Try(updater, "update")

			serving, code := "1.0.0", 1
			if c.holds {
				serving, code = "1.1.0", 0
			}
			if r.Code != code {
				t.Errorf("exit code %d; want %d", r.Code, code)
			}
			s.serves(serving)
			if got := from.became(s.seen()); got != c.effect {
				t.Errorf("the agent's unit was %s; want %s", got, c.effect)
			}
			if user != nil {
				user.goesOn("1.0.0 " + from.pid)
			}
			s.explains(c, r)
			s.lost(rows, serving)
			s.tidy()
		})
	}
}

// explains asserts what a person gets to know.
func (s *scene) explains(c healthCase, r host.Result) {
	s.t.Helper()
	log := s.told()
	for _, words := range c.says {
		if !strings.Contains(log, words) {
			s.t.Errorf("the journal does not say %q:\n%s", words, log)
		}
	}
	for _, words := range append(c.silent, "<nil>", "panic") {
		if strings.Contains(log, words) {
			s.t.Errorf("the journal says %q:\n%s", words, log)
		}
	}
	got := s.status()
	if text(got.LastTarget) != "1.1.0" {
		s.t.Errorf("status: the last target is %s", text(got.LastTarget))
	}
	if c.holds {
		if got.State != installer.StateIdle || text(got.LastResult) != string(state.Succeeded) || got.LastError != nil ||
			got.FailedVersion != nil || got.FailedAttempts != nil || got.NextAttempt != nil || got.Unproven {
			s.t.Errorf("status after an update that holds: %+v", got)
		}
		return
	}
	result := c.result
	if result == "" {
		result = state.RolledBack
		if !strings.Contains(r.Stderr, "version 1.1.0 did not hold and was rolled back") || !strings.Contains(r.Stderr, "the agent is on version 1.0.0") {
			s.t.Errorf("the command does not say how it ended:\n%s", r.Stderr)
		}
	}
	if got.State != installer.StateBackingOff || text(got.LastResult) != string(result) || text(got.FailedVersion) != "1.1.0" ||
		got.FailedAttempts == nil || *got.FailedAttempts != 1 || got.LastError == nil || !strings.Contains(log, *got.LastError) {
		s.t.Errorf("status: %s, last result %s, failed %s, error %s", got.State, text(got.LastResult), text(got.FailedVersion), text(got.LastError))
	}
	if got.NextAttempt == nil || !near(time.Until(*got.NextAttempt), time.Hour) {
		s.t.Errorf("status: the next attempt is at %v", got.NextAttempt)
	}
}

// near allows for the time that a test takes.
func near(got, want time.Duration) bool { return got > want-2*time.Minute && got <= want }

// seen is the agent at one moment: the process that the PID file names, and the
// run of the unit.
type seen struct{ pid, run string }

func (s *scene) seen() seen {
	s.t.Helper()
	return seen{strings.TrimSpace(s.Read("/run/teleport.pid")), s.Show("teleport", "InvocationID")}
}

func (b seen) became(a seen) effect {
	switch {
	case a.run != b.run:
		return restarted
	case a.pid != b.pid:
		return handedOver
	}
	return inPeace
}

// told returns what the updater told the journal.
func (s *scene) told() string {
	s.t.Helper()
	s.Must("journalctl", "--sync")
	return s.Must("journalctl", "--quiet", "--no-pager", "--output=cat", "-t", "teleport-update")
}

// agentDatabase is what the stand-in's database holds.
type agentDatabase struct {
	Schema    int
	Integrity string
	Rows      int64
	Last      int64 // the newest id ever given: none is given twice
}

func (s *scene) database() agentDatabase {
	s.t.Helper()
	var d agentDatabase
	out := s.Must(linkDir+"/teleport", "report")
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		s.t.Fatalf("report printed %q: %v", out, err)
	}
	return d
}

// lost asserts that no row of before is lost, that the database fits the version
// that serves, and that this version writes to it.
func (s *scene) lost(before agentDatabase, serving string) {
	s.t.Helper()
	var d agentDatabase
	host.Wait(s.t, patience, func() error {
		if d = s.database(); d.Last <= before.Last {
			return fmt.Errorf("version %s writes nothing: %+v, before %+v", serving, d, before)
		}
		return nil
	})
	if d.Integrity != "ok" || d.Rows != d.Last || d.Schema != 1 {
		s.t.Errorf("the database holds %+v, and before the update %+v", d, before)
	}
}

// tidy asserts that nothing of the update is left running or failed.
func (s *scene) tidy() {
	s.t.Helper()
	for _, left := range []string{
		s.Must("systemctl", "list-units", "--plain", "--no-legend", "--all", "teleport-update-switch-*"),
		s.Must("systemctl", "list-units", "--plain", "--no-legend", "--failed"),
	} {
		if left != "" {
			s.t.Errorf("units are left: %s", left)
		}
	}
}
