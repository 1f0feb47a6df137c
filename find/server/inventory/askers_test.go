package inventory

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

func TestWhoAsked(t *testing.T) {
	clock := newClock()
	a := NewAsked(clock.Now, nil)
	known := func(group string) bool { return group == "dev" }
	for i := range 5000 {
		for range 1 + i%2 {
			a.Count(rollout.Query{Group: "dev", Host: hostUUID(i)}, "17.2.0", clock.Now())
		}
	}
	a.Count(rollout.Query{Group: "dve"}, "17.2.1", clock.Now())
	a.Count(rollout.Query{}, "17.2.1", clock.Now())
	got := a.Summary(known)
	if !got.Unconfirmed || got.Questions != 7502 || len(got.Groups) != 3 || len(got.Unknown) != 1 || got.Unknown["dve"] != 1 {
		t.Fatalf("%+v", got)
	}
	dev := got.Groups[1]
	if dev.Group != "dev" || dev.Questions != 7500 || dev.Hosts < 4500 || dev.Hosts > 5500 || dev.Versions["17.2.0"] != 7500 {
		t.Errorf("%+v", dev)
	}
	if other := got.Groups[2]; other.Hosts != 0 || other.Versions["17.2.1"] != 1 {
		t.Errorf("%+v", other)
	}
	// The same hosts again are the same; after an hour they are gone.
	clock.pass(30 * time.Minute)
	for i := range 5000 {
		a.Count(rollout.Query{Group: "dev", Host: hostUUID(i)}, "17.2.1", clock.Now())
	}
	if again := a.Summary(known).Groups[1]; again.Hosts != dev.Hosts || again.Questions != 12500 {
		t.Errorf("%+v", again)
	}
	clock.pass(35 * time.Minute)
	if later := a.Summary(known).Groups; len(later) != 1 || later[0].Questions != 5000 || len(later[0].Versions) != 1 {
		t.Errorf("%+v", later)
	}
	clock.pass(48 * time.Hour)
	if gone := a.Summary(known); gone.Questions != 0 || len(gone.Groups) != 0 {
		t.Errorf("%+v", gone)
	}
}

// The five minutes of a question are those of its moment, wherever the clock was before.
func TestAQuestionIsCountedAtItsTime(t *testing.T) {
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	a := NewAsked(func() time.Time { return noon }, nil)
	want := make(map[time.Time]int64)
	for i, at := range []time.Duration{0, time.Second, 5*time.Minute - 1, 5 * time.Minute, 9 * time.Minute, 4 * time.Minute, -1, 0, -5 * time.Minute, 11 * time.Minute} {
		now := noon.Add(at)
		a.Count(rollout.Query{Group: "dev"}, fmt.Sprint(i), now)
		want[now.Truncate(askedPart)]++
	}
	for begin, n := range want {
		found := int64(0)
		for _, part := range a.parts {
			if part.begin.Equal(begin) {
				found += part.groups["dev"].questions
			}
		}
		if found != n {
			t.Errorf("%d questions from %v on; want %d", found, begin, n)
		}
	}
}

// Whoever asks in a million names takes no more memory than who asks in some hundreds.
func TestWhoAskedIsBounded(t *testing.T) {
	clock := newClock()
	a := NewAsked(clock.Now, nil)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 13 {
		for j := range 20_000 {
			a.Count(rollout.Query{Group: fmt.Sprint("group ", i, j, strings.Repeat("x", j%400)), Host: fmt.Sprint(j)}, fmt.Sprintf("1.%d.0", j), clock.Now())
		}
		clock.pass(askedPart)
	}
	if took := int64(heap()) - int64(before); took > 8<<20 {
		t.Errorf("it takes %d bytes", took)
	}
	if got := a.Summary(func(string) bool { return false }); got.Questions != 11*20_000 || len(got.Groups) > 12*(maxAskedGroups+1) {
		t.Errorf("%d questions in %d groups", got.Questions, len(got.Groups))
	}
}
