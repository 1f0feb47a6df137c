package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func (w *world) scene() Scene {
	s := Scene{Config: w.config, Version: w.version, Rollout: w.rollout, CompleteAt: w.now.Add(10 * time.Minute), Now: w.now}
	if w.rollout != nil {
		s.Counts = w.counts()
	}
	return s
}

// Every word is told of a scene in which it is the right one, with what moves it. A
// word that no scene leads to is an error: nobody would know what it says.
func TestARolloutInAWordAndASentence(t *testing.T) {
	dev := `{name: dev, ` + everyDay + `}`
	prod := `{name: prod, ` + everyDay + `, wait_hours: 24}`
	told := make(map[Word]bool)
	for _, tc := range []struct {
		name, agents string
		act          func(w *world)
		word         Word
		sentence     string
		commands     string
		at           string
	}{
		{"nothing was said", "", func(w *world) { w.version = nil }, "unset", "No version is set: new hosts install the newest release that there was when the server started, if there was one.", "set-version VERSION (begins the rollout of VERSION)", ""},
		{"a mode of the config", regular(dev), func(w *world) { w.config.Spec.Agents.Mode = Disabled }, "disabled", "Updates are disabled: no host updates by itself, and no group goes on.", "mode enabled (goes on with 17.2.1, each group in its turn)", ""},
		{"a mode of the version", regular(dev), func(w *world) { w.version.Spec.Agents.Mode = Suspended }, "suspended", "Updates are suspended by autoupdate_version: no host updates by itself, and no group goes on.", "apply -f FILE (goes on with 17.2.1, if FILE has a version with the mode enabled)", ""},
		{"example 10, for every host at once", regular(dev), func(w *world) { w.version = versionWith("", Immediate); w.tick() }, "immediate", "Every host is told to update to 17.2.1 at once.", "nothing: hosts update at their next poll", ""},
		{"before the first tick", regular(dev), func(w *world) {}, "beginning", "The rollout of 17.2.1 begins within ten seconds.", "nothing: it begins by itself", ""},
		{"a schedule without groups", "schedules: {critical: [" + dev + "]}", func(w *world) { w.tick() }, "empty", "The schedule regular has no groups: no host is told to update.", "apply -f FILE (gives the schedule groups, if FILE has them); rollout reset (starts 17.2.1 again, from the first group)", ""},
		{"example 1, the hour is to come", regular(dev, prod), func(w *world) { w.begin("Mon 08:00") }, "waiting", "Group dev starts at Mon 2025-06-02 10:00 UTC.", "nothing: it starts by itself; rollout start dev (tells its hosts, none of which reports, to update to 17.2.1)", "Mon 10:00"},
		{"the hour has come", regular(dev, prod), func(w *world) { w.begin("Mon 10:30") }, "waiting", "Group dev starts within ten seconds.", "nothing: it starts by itself; rollout start dev (tells its hosts, none of which reports, to update to 17.2.1)", "Mon 10:30"},
		{"a server that has just started, long before the hour", regular(dev), func(w *world) { w.begin("Mon 08:00"); w.counted = false }, "waiting", "Group dev starts at Mon 2025-06-02 10:00 UTC. The server takes rollout start from Mon 2025-06-02 08:10 UTC on, when it knows all hosts.", "nothing: it starts by itself", "Mon 10:00"},
		{"a server that has just started, in the hour", regular(dev), func(w *world) { w.begin("Mon 10:30"); w.counted = false }, "counting", "The server does not know all hosts yet. No group goes on before Mon 2025-06-02 10:40 UTC, when hosts have had 25 minutes to report.", "nothing: it goes on by itself", "Mon 10:40"},
		{"example 2, a part of the hosts", regular(dev), func(w *world) {
			names := w.add("dev", 100, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			for _, name := range names[:89] {
				w.update(name, "17.2.1")
			}
		}, "updating", "89 of 100 hosts of dev are on 17.2.1; the group is done when 90 are.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (tells 89 hosts to go back to 17.2.0)", ""},
		{"a part that is no whole number of hosts", regular(dev), func(w *world) {
			w.add("dev", 15, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
		}, "updating", "0 of 15 hosts of dev are on 17.2.1; the group is done when 14 are.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 15 hosts stay on 17.2.0)", ""},
		{"no hosts", regular(dev, prod), func(w *world) { w.begin("Mon 10:30"); w.tick() }, "updating", "Group dev started without hosts; it is done at Mon 2025-06-02 11:00 UTC.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (tells its hosts, none of which reports, to go back to 17.2.0)", "Mon 11:00"},
		{"hosts that fail", regular(dev), func(w *world) {
			names := w.add("dev", 100, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			for _, name := range names[:2] {
				w.poll(name)
				w.fail(name)
			}
		}, "updating", "2 of 100 hosts of dev failed. 0 of 100 hosts of dev are on 17.2.1; the group is done when 90 are.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 100 hosts stay on 17.2.0)", ""},
		{"a plan", regular(`{name: dev, ` + everyDay + `, max_in_flight: 2}`), func(w *world) {
			w.add("dev", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			w.pass(time.Minute)
		}, "updating", "0 of 10 hosts of dev are on 17.2.1, and it is the turn of 2 more; the group is done when 9 are, and all have had their turn.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 10 hosts stay on 17.2.0)", ""},
		{"canaries", regular(`{name: dev, ` + everyDay + `, canary_count: 3}`), func(w *world) {
			w.add("dev", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			w.update(w.canaryNames("dev")[0], "17.2.1")
		}, "updating", "1 of 3 canaries of dev are on 17.2.1; the group goes on when all of them are.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (tells 1 host to go back to 17.2.0)", ""},
		{"one canary", regular(`{name: dev, ` + everyDay + `, canary_count: 1}`), func(w *world) {
			w.add("dev", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
		}, "updating", "0 of 1 canary of dev is on 17.2.1; the group goes on when it is.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 10 hosts stay on 17.2.0)", ""},
		{"one host", regular(dev), func(w *world) {
			w.add("dev", 1, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
		}, "updating", "0 of 1 host of dev is on 17.2.1; the group is done when 1 is.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 1 host stays on 17.2.0)", ""},
		{"windows", "strategy: time-based, " + regular(dev, `{name: prod, `+everyDay+`}`), func(w *world) {
			w.add("dev", 4, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
		}, "updating", "0 of 4 hosts of dev are on 17.2.1; the others are told to update until Mon 2025-06-02 11:00 UTC. Group prod updates too.", "nothing: it goes on by itself; mode suspended (tells no further host to update, and no group goes on); rollout back dev (ends it, and 4 hosts stay on 17.2.0)", "Mon 11:00"},
		{"example 9, a canary failed", regular(`{name: "dev 1", `+everyDay+`, canary_count: 5}`, prod), func(w *world) {
			w.add("dev 1", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			w.fail(w.canaryNames("dev 1")[0])
			w.tick()
		}, "halted", "it dies of SIGSEGV. None of its hosts is told to update, and no host of prod.", "nothing: its hosts stay as they are; rollout back 'dev 1' (ends it, and 10 hosts stay on 17.2.0); rollout retry 'dev 1' (tells 5 hosts to try 17.2.1 again first); rollout done 'dev 1' (ends it: tells 10 hosts to update to 17.2.1, and prod may start)", ""},
		{"hosts went away", regular(dev), func(w *world) {
			names := w.add("dev", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			for _, name := range names {
				w.update(name, "17.2.1")
			}
			w.now = w.now.Add(20 * time.Minute)
			w.alive(names[:5]...)
			w.now = w.now.Add(10 * time.Minute)
			w.tick()
		}, "stalled", "enough of the hosts that report are on 17.2.1, but these are fewer than 90 % of the 10 hosts at the start: the server cannot tell whether the others are gone or broken.", "nothing: the group is done when enough of its hosts report the version; rollout back dev (tells 5 hosts to go back to 17.2.0); rollout done dev (ends it with 5 hosts on 17.2.1)", ""},
		{"rolled back by hand", regular(dev, prod), func(w *world) {
			w.add("dev", 2, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			w.order(Order{Verb: Rollback})
		}, "rolledback", "dev was rolled back: its hosts are told to go back to 17.2.0; 2 of 2 hosts are there.", "nothing: hosts stay there until a version is set; set-version VERSION (begins the rollout of VERSION, and ends this one); rollout start dev (tells 2 hosts to update to 17.2.1); rollout reset (starts 17.2.1 again, from the first group)", ""},
		{"all done", regular(dev), func(w *world) { w.begin("Mon 10:30"); w.order(Order{Verb: MarkDone, Groups: []string{"dev"}}) }, "over", "All groups are done; no host reports, and the server cannot tell whether any is on 17.2.1.", "nothing: all groups have had their turn; rollout reset (starts 17.2.1 again, from the first group)", ""},
		{"all hosts updated", regular(dev), func(w *world) {
			w.add("dev", 10, "17.2.1")
			w.begin("Mon 10:30")
			w.tick()
			w.pass(time.Minute)
		}, "done", "10 of 10 hosts of all groups are on 17.2.1.", "nothing: all groups have had their turn", ""},
		{"one host, updated", regular(dev), func(w *world) {
			w.add("dev", 1, "17.2.1")
			w.begin("Mon 10:30")
			w.tick()
			w.pass(time.Minute)
		}, "done", "1 of 1 host of all groups is on 17.2.1.", "nothing: all groups have had their turn", ""},
		{"the windows of a release that every host rolls back", "strategy: time-based, " + regular(dev, "{name: prod, days: [Mon], start_hour: 10}"), func(w *world) {
			names := append(w.add("dev", 5, "17.2.0"), w.add("prod", 10, "17.2.0")...)
			w.begin("Mon 10:30")
			w.tick()
			for _, name := range names {
				w.poll(name)
				w.fail(name)
			}
			w.pass(time.Hour)
		}, "over", "Windows are over; 0 of 15 hosts are on 17.2.1, 15 failed. The next window of dev begins at Tue 2025-06-03 10:00 UTC.", "nothing: the next window begins by itself; rollout start dev (tells 5 hosts to update to 17.2.1)", "Tue 10:00"},
		{"a group that was marked done", regular(dev), func(w *world) {
			names := w.add("dev", 10, "17.2.0")
			w.begin("Mon 10:30")
			w.tick()
			w.poll(names[0])
			w.fail(names[0])
			w.tick()
			w.order(Order{Verb: MarkDone, Groups: []string{"dev"}})
		}, "over", "All groups are done; 0 of 10 hosts are on 17.2.1, 1 failed. The others are told to update.", "nothing: all groups have had their turn; rollout reset (starts 17.2.1 again, from the first group)", ""},
		{"groups whose hosts have no token", regular(dev, "{name: prod, "+everyDay+"}"), func(w *world) {
			w.add("dev", 10, "17.2.1")
			w.begin("Mon 10:00")
			w.tick()
			w.pass(2 * time.Hour)
		}, "over", "All groups are done; 10 of 10 hosts are on 17.2.1. No host of prod reports.", "nothing: all groups have had their turn; rollout reset (starts 17.2.1 again, from the first group)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.agents)
			tc.act(w)
			got := Look(w.scene())
			if got.Word != tc.word || !strings.HasSuffix(got.Sentence, tc.sentence) || said(got.Commands) != tc.commands {
				t.Errorf("it is told\n%s: %s (%s)\nwant\n%s: %s (%s)", got.Word, got.Sentence, said(got.Commands), tc.word, tc.sentence, tc.commands)
			}
			var at time.Time
			if tc.at != "" {
				at = when(tc.at)
			}
			if !got.At.Equal(at) {
				t.Errorf("it goes on at %s; want %s", got.At, at)
			}
			if o := Survey(w.scene()); o.Word != got.Word || o.Sentence != got.Sentence {
				t.Errorf("the overview says %s: %s", o.Word, o.Sentence)
			}
			told[got.Word] = true
		})
	}
	for _, o := range outlooks {
		if !told[o.word] {
			t.Errorf("no scene leads to %q", o.word)
		}
	}
}

// What a condition or a halt has people do can be done: the commands are not refused.
func TestTheCommandsOfAnOutlookAreNotRefused(t *testing.T) {
	for state, byType := range helps {
		for kind := range byType {
			if !slices.ContainsFunc(conditions, func(c condition) bool { return c.kind == kind && c.from == state }) {
				t.Errorf("there is no condition %s of a group that is %s", kind, state)
			}
		}
	}
	for _, c := range conditions {
		if len(helps[c.from][c.kind]) == 0 {
			t.Errorf("nothing helps a group that is %s with %s", c.from, c.kind)
		}
		for _, help := range helps[c.from][c.kind] {
			if !slices.ContainsFunc(orders, func(o order) bool {
				return o.verb == help && slices.Contains(o.from, c.from) && !o.onlyHalted
			}) {
				t.Errorf("%s is refused of a group that is %s", help, c.from)
			}
		}
	}
}

// A group that comes first in the file, but not in its turn, is not the one that starts next.
func TestTheNextGroupWaitsForNoOther(t *testing.T) {
	w := newWorld(t, regular("{name: prod, "+everyDay+", requires: [dev]}", "{name: dev, "+everyDay+"}"))
	w.begin("Mon 08:00")
	if got := Look(w.scene()).Sentence; got != "Group dev starts at Mon 2025-06-02 10:00 UTC." {
		t.Error(got)
	}
}
