package rollout

import (
	"strings"
	"testing"
	"time"
)

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

// A group that comes first in the file, but not in its turn, is not the one that starts next.
func TestTheNextGroupWaitsForNoOther(t *testing.T) {
	w := newWorld(t, regular("{name: prod, "+everyDay+", requires: [dev]}", "{name: dev, "+everyDay+"}"))
	w.begin("Mon 08:00")
	if got := Look(w.scene()).Sentence; got != "Group dev starts at Mon 2025-06-02 10:00 UTC." {
		t.Error(got)
	}
}

// A rollback on a server that has just started names the hosts that have reported.
func TestARollbackNamesTheHostsThatHaveReported(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.begin("Mon 10:00")
	w.tick()
	w.counted = false
	rollback := Order{Verb: Rollback, Groups: []string{"dev"}}
	for _, want := range []string{"so far no host of the group has reported; all are told to go to 17.2.0",
		"3 hosts go from 17.2.1 to 17.2.0; so far 3 hosts of the group have reported; all are told to go to 17.2.0"} {
		result, err := rollback.Apply(w.config, w.version, w.rollout, w.counts(), w.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Steps[0].Message; !strings.HasPrefix(got, want) {
			t.Errorf("it says %s; want %s", got, want)
		}
		w.add("dev", 3, "17.2.1")
	}
}
