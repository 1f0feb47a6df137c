package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/inventory"
)

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// crowd has hosts make up more words than there is room for, each in one place of a report.
func (r *reportWorld) crowd(edit func(b *rollout.Heartbeat, word string)) {
	r.t.Helper()
	for i := range inventory.MaxWords + 500 {
		b := rollout.Heartbeat{HostID: hostUUID(100_000 + i), Group: "dev", Version: "17.2.0"}
		edit(&b, fmt.Sprintf("1.0.%d", i))
		if err := b.Check(); err != nil {
			r.t.Fatal(err)
		}
		r.fleet.Take(b, r.clock.Now())
	}
}

func outcome(b *rollout.Heartbeat, state rollout.OutcomeState, target, text string) {
	b.Outcome = &rollout.Outcome{State: state, Target: rollout.Semver(target), Error: text, Time: noon}
}

// Whatever other hosts make up, in any place of their reports, an honest host is heard, and what the operator
// has named is kept as it was said.
func TestWordsOfOthersCostNoReport(t *testing.T) {
	for place, edit := range map[string]func(b *rollout.Heartbeat, word string){
		"group":        func(b *rollout.Heartbeat, word string) { b.Group = word },
		"version":      func(b *rollout.Heartbeat, word string) { b.Version = rollout.Semver(word) },
		"told":         func(b *rollout.Heartbeat, word string) { b.Told = rollout.Semver(word) },
		"begun":        func(b *rollout.Heartbeat, word string) { outcome(b, rollout.OutcomeStarted, word, "") },
		"failed":       func(b *rollout.Heartbeat, word string) { outcome(b, rollout.OutcomeFailed, word, "x") },
		"error":        func(b *rollout.Heartbeat, word string) { outcome(b, rollout.OutcomeFailed, "17.2.1", word) },
		"edition":      func(b *rollout.Heartbeat, word string) { b.Edition = word },
		"architecture": func(b *rollout.Heartbeat, word string) { b.Arch = word },
		"all of a kind": func(b *rollout.Heartbeat, word string) {
			b.Group, b.Version, b.Edition = word, rollout.Semver(word), word
		},
	} {
		t.Run(place, func(t *testing.T) {
			w := newStoreWorld(t)
			w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}, {name: prod, days: ['*'], start_hour: 14}"))
			w.write(scheduled)
			r := w.reporting(newClock(), w.store)
			token := r.token("all")
			r.joined(token, "dev", 0)
			r.said(0, "dev", "17.2.0", nil)
			r.crowd(edit)
			for name, honest := range map[string]func(b *find.Heartbeat){
				"the version that it had": func(b *find.Heartbeat) { b.Version = "17.2.0" },
				"the target":              func(b *find.Heartbeat) { b.Version = "17.2.1" },
				"told to update":          func(b *find.Heartbeat) { b.Told = "17.2.1" },
				"an update that begins":   func(b *find.Heartbeat) { b.Outcome = &find.Outcome{Target: "17.2.1", State: "started", Time: noon} },
				"a failure":               failedAt("17.2.1", "it broke"),
				"another group":           func(b *find.Heartbeat) { b.Group = "prod" },
				"editions":                func(b *find.Heartbeat) { b.Edition, b.Arch = "enterprise-fips", "arm64" },
				"a version of its own":    func(b *find.Heartbeat) { b.Version = "16.4.7" },
			} {
				if status, said := r.says(0, "dev", "17.2.0", honest); status != http.StatusOK {
					t.Errorf("%s: %d %s", name, status, said.Error)
				}
				e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
				words := fmt.Sprint(e.Group, e.Told.Target, e.Begun.Target, e.Failed.Target, e.Edition, e.Arch)
				if strings.Contains(words, fleet.Other) || e.Version == fleet.Other && name != "a version of its own" {
					t.Errorf("%s: it is kept as %+v", name, e)
				}
			}
			if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0))); e.Failed.Target != "17.2.1" || e.Failed.Error == "" {
				t.Errorf("the verdict is kept as %+v", e.Failed)
			}
			r.joined(token, "prod", 1)
			r.joined(token, "a group that is new", 2)
			if lines := r.fleet.Full(); place != "error" && len(lines) == 0 {
				t.Error("nobody is told that there is no room for more words")
			}
		})
	}
}

// A host whose word there is no room for is written once, and not with every report.
func TestAWordWithoutRoomIsWrittenOnce(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	r.crowd(func(b *rollout.Heartbeat, word string) {
		b.Version, b.Told = rollout.Semver(word), rollout.Semver(word)
	})
	edit := func(b *find.Heartbeat) {
		b.Told = "16.4.8"
		b.Outcome = &find.Outcome{Target: "16.4.9", State: "failed", Error: "x", Time: noon}
	}
	r.said(0, "dev", "16.4.7", edit)
	before := r.everything()
	for range 20 {
		r.said(0, "dev", "16.4.7", edit)
	}
	heads := func(everything string) string { return everything[strings.Index(everything, "\nagents/"):] }
	if after := r.everything(); heads(after) != heads(before) {
		t.Errorf("20 reports that say nothing new are written:\n%s\n%s", heads(before), heads(after))
	}
}

// One host brings some new words in an hour. What it says beyond them is shown as another's.
func TestAHostBringsFewNewWords(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 2, 0, 1) // the first of them brings the name of the group
	kept := func(i int) (versions int) {
		for n := range 2 * inventory.MaxNewWords {
			if n%20 == 0 {
				r.clock.pass(time.Minute) // for more reports than a minute has
			}
			r.said(i, "dev", fmt.Sprintf("%d.0.%d", i+1, n), nil)
			if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(i))); e.Version != fleet.Other {
				versions++
			}
		}
		return versions
	}
	if got := kept(0); got != inventory.MaxNewWords {
		t.Errorf("%d versions of one host are kept; want %d", got, inventory.MaxNewWords)
	}
	if got := kept(1); got != inventory.MaxNewWords {
		t.Errorf("%d versions of another host are kept; want %d", got, inventory.MaxNewWords)
	}
	r.clock.pass(time.Hour)
	if got := kept(0); got != inventory.MaxNewWords {
		t.Errorf("%d versions of the host are kept an hour later; want %d", got, inventory.MaxNewWords)
	}
}

// Words that real reports have brought into the store are as many after the next start: an honest host is
// heard then, too, and every host is counted.
func TestAFullTableOfWordsOutlastsAStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills the table")
	}
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	w.write(scheduled)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	const each = 3 // words of a kind that a host has at one time
	hosts := inventory.MaxWords/each + 100
	r.joined(token, "dev", 0)
	r.said(0, "dev", "17.2.0", nil)
	for i := 1; i <= hosts; i++ {
		if i%(inventory.MaxJoins-1) == 0 {
			r.clock.pass(time.Minute)
		}
		r.joined(token, "dev", i)
		r.said(i, "dev", fmt.Sprintf("1.1.%d", i), func(b *find.Heartbeat) {
			b.Told = fmt.Sprintf("1.2.%d", i)
			b.Outcome = &find.Outcome{Target: fmt.Sprintf("1.3.%d", i), State: "failed", Error: "x", Time: noon}
		})
	}
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.fleet.Full()) == 0 {
		t.Fatal("the table is not full")
	}
	next := r.again(w.other)
	next.secrets, next.last = r.secrets, r.last
	for name, honest := range map[string]func(b *find.Heartbeat){
		"the target": func(b *find.Heartbeat) { b.Version = "17.2.1" },
		"a failure":  failedAt("17.2.1", "it broke"),
	} {
		if status, said := next.says(0, "dev", "17.2.0", honest); status != http.StatusOK {
			t.Errorf("%s, after a start: %d %s", name, status, said.Error)
		}
	}
	e, known := next.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
	if !known || e.Failed.Target != "17.2.1" || e.Version == fleet.Other {
		t.Errorf("it is kept as %+v, %t", e, known)
	}
	next.reads(rollout.PresentFor + time.Minute)
	if err := next.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := next.fleet.Len(); got != hosts+1 {
		t.Errorf("%d hosts are known after the start; want %d", got, hosts+1)
	}
	if n := countsOf(next.fleet, new(rollout.Rollout), next.clock.Now()); !n.Complete {
		t.Errorf("after the start no group goes on: %+v", n)
	}
}

// People are told before there is no room, and not while there is plenty.
func TestATableThatIsNearlyFullIsTold(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	said := 0
	fill := func(upTo int) string {
		for ; said < upTo; said++ {
			b := rollout.Heartbeat{HostID: hostUUID(100_000 + said), Group: "dev", Version: rollout.Semver(fmt.Sprintf("1.0.%d", said))}
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			r.fleet.Take(b, r.clock.Now())
		}
		return strings.Join(r.fleet.Full(), "\n")
	}
	if lines := fill(inventory.MaxWords * 8 / 10); lines != "" {
		t.Errorf("at 80 %%: %s", lines)
	}
	if lines := fill(inventory.MaxWords * 91 / 100); !strings.Contains(lines, "versions") {
		t.Errorf("at 91 %%: %q", lines)
	}
}
