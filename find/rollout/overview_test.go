package rollout

import (
	"strings"
	"testing"
	"time"
)

// An overview has the counts of now: those in the rollout are a minute old.
func TestAnOverviewCountsNow(t *testing.T) {
	w := newWorld(t, regular(`{name: dev, `+everyDay+`}`))
	names := w.add("dev", 4, "17.2.0")
	w.begin("Mon 10:30")
	w.tick()
	w.update(names[0], "17.2.1")
	g := Survey(w.scene()).Groups[0]
	if g.UpToDate != 1 || g.Present != 4 || g.Versions["17.2.1"] != 1 || g.Versions["17.2.0"] != 3 || w.group("dev").UpToDateCount != 0 {
		t.Errorf("it counts %+v, and the rollout %d", g, w.group("dev").UpToDateCount)
	}
}

// The next rollout starts from what hosts run, whatever became of the last one.
func TestTheNextRolloutStartsFromWhatHostsRun(t *testing.T) {
	group := func(versions map[Semver]int) GroupOverview { return GroupOverview{Versions: versions} }
	for _, tc := range []struct {
		groups []GroupOverview
		want   Semver
	}{
		{nil, ""},
		{[]GroupOverview{group(nil), group(map[Semver]int{"": 9})}, ""},
		{[]GroupOverview{group(map[Semver]int{"1.1.0": 10}), group(map[Semver]int{"1.1.0": 10, "1.0.0": 1})}, "1.1.0"}, // halted, and all but one updated
		{[]GroupOverview{group(map[Semver]int{"1.1.0": 2}), group(map[Semver]int{"1.0.0": 20})}, "1.0.0"},              // a few tried it
		{[]GroupOverview{group(map[Semver]int{"1.9.0": 5, "1.10.0": 5, "1.2.0": 5})}, "1.10.0"},
	} {
		if got, _, _ := MostRun(tc.groups); got != tc.want {
			t.Errorf("%v: %s; want %s", tc.groups, got, tc.want)
		}
	}
	w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.add("dev", 3, "17.2.0")
	w.join("ahead", "dev", "17.2.0")
	w.fleet.named("ahead").Version = "17.3.0"
	w.begin("Mon 08:00")
	got := Foresee(w.scene())
	if len(got) != 1 || !strings.Contains(got[0], "1 host of dev runs a version newer than the start version 17.2.0, up to 17.3.0") {
		t.Errorf("foreseen: %q", got)
	}
}

// A server that has just started shows the hosts that have reported so far, and names no start that comes too early.
func TestAServerThatHasJustStartedShowsWhatHasReported(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"))
	w.counted = false
	w.begin("Mon 09:55")
	names := w.add("dev", 495, "17.2.0")
	w.update(names[0], "17.2.1")
	w.add("prod", 1, "17.2.0")
	s := w.scene()
	s.CompleteAt = when("Mon 10:05").Add(20 * time.Second)
	o := Survey(s)
	if dev := o.Groups[0]; !dev.SoFar || dev.Present != 495 || dev.UpToDate != 1 {
		t.Errorf("dev has %d of %d hosts, so far %t", dev.UpToDate, dev.Present, dev.SoFar)
	}
	if o.Word != "counting" || !strings.HasSuffix(o.Sentence, " So far 496 hosts have reported.") {
		t.Errorf("%s: %s", o.Word, o.Sentence)
	}
	if !strings.Contains(o.Sentence, "before Mon 2025-06-02 10:06 UTC") {
		t.Errorf("20 seconds after 10:05 is not named 10:06: %s", o.Sentence)
	}
	for i, want := range []string{"starts Mon 2025-06-02 10:06 UTC", "starts Mon 2025-06-02 10:06 UTC at the earliest, after dev"} {
		if got := o.Groups[i].Next(); got != want {
			t.Errorf("%s %s; want %s", o.Groups[i].Name, got, want)
		}
	}
	// The hour is over before the server knows all hosts.
	s.CompleteAt = when("Mon 11:05")
	if o := Look(s); o.Word != "waiting" || !o.At.Equal(when("Tue 10:00")) {
		t.Errorf("%s, at %s", o.Word, o.At)
	}
	// The last complete counts stay until more hosts have reported.
	w.counted = true
	w.tick()
	w.counted = false
	w.fleet.named(names[0]).LastSeen = w.now.Add(-time.Hour)
	if dev := Survey(w.scene()).Groups[0]; dev.SoFar || dev.Present != 495 {
		t.Errorf("dev has %d hosts, so far %t", dev.Present, dev.SoFar)
	}
}
