package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
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

// A token lets in as many hosts as it is for, and not too many at once. A join that is refused writes nothing.
func TestATokenHasLimits(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	made, err := r.fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: "few", MaxHosts: 3}, store.Audit{Who: "uid 0"}, false)
	if err != nil || made.MaxHosts != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	r.joined(made.Token, "dev", 0, 1, 2)
	all := r.token("all")
	before := r.everything()
	for i, token := range []string{made.Token, made.Token, made.Token} {
		if status, said := r.joins(10+i, token, secretOf(10+i), "dev"); status != http.StatusForbidden || !strings.Contains(said.Error, "few is for 3 hosts") {
			t.Errorf("a host too many: %d %s", status, said.Error)
		}
	}
	if after := r.everything(); after != before {
		t.Errorf("joins that were refused have changed\n%s\nto\n%s", before, after)
	}
	if status, said := r.joins(0, made.Token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Errorf("the join of a host that is in: %d %s", status, said.Error)
	}
	r.joined(all, "dev", 20)
	// Who is removed makes room.
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(1)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	r.joined(made.Token, "dev", 10)
	// The next start finds nothing that it cannot count.
	r.clock.pass(rollout.PresentFor + time.Minute)
	next := r.again(w.other)
	next.reads(rollout.PresentFor + time.Minute)
	if err := next.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countsOf(next.fleet, new(rollout.Rollout), next.clock.Now()); !n.Complete {
		t.Errorf("after the next start no group goes on: %+v", n)
	}
	if got := next.fleet.Len(); got != 4 {
		t.Errorf("%d hosts are known after the next start; want 4", got)
	}
}

// One token lets in only so many hosts in a minute, and the others later.
func TestATokenLetsInManyHostsOneMinuteAfterTheOther(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	all, other := r.token("all"), r.token("other")
	for i := range inventory.MaxJoins {
		r.joined(all, "dev", i)
	}
	before := r.everything()
	if status, _ := r.joins(5000, all, secretOf(5000), "dev"); status != http.StatusTooManyRequests {
		t.Errorf("a join too many in a minute: %d", status)
	}
	if r.everything() != before {
		t.Error("a join that was refused has changed something")
	}
	r.joined(other, "dev", 5001)
	r.clock.pass(time.Minute)
	r.joined(all, "dev", 5000)
}

// With its hosts a token is gone from every server: they report no more, are in no count, and may join again.
func TestRevokingATokenWithItsHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	leaked, other := a.token("leaked"), a.token("other")
	a.joined(leaked, "dev", 0, 1, 2)
	a.joined(other, "dev", 3)
	for _, i := range []int{0, 1, 2, 3} {
		a.said(i, "dev", "17.2.0", nil)
	}
	revoke := func(hosts, dryRun bool) (int, error) {
		return a.fleet.RevokeToken(t.Context(), "leaked", hosts, store.Audit{Who: "uid 0", Why: "found in a log"}, dryRun)
	}
	if n, err := revoke(true, true); n != 3 || err != nil || a.fleet.Len() != 4 {
		t.Fatalf("a dry run: %d, %v, and %d hosts", n, err, a.fleet.Len())
	}
	if _, err := revoke(false, false); err != nil {
		t.Fatal(err)
	}
	a.said(0, "dev", "17.2.1", nil) // without its hosts they go on reporting
	if err := b.fleet.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n, err := revoke(true, false); n != 3 || err != nil {
		t.Fatalf("%d hosts were removed, %v", n, err)
	}
	// The other server, which has not heard of it: neither a host that says something new nor one beside it is
	// refused for longer than that takes, and nobody for another's sake.
	if status, said := b.says(3, "dev", "17.2.2", nil); status != http.StatusOK {
		t.Errorf("a host of another token: %d %s", status, said.Error)
	}
	b.says(0, "dev", "17.2.3", nil)
	for _, r := range []*reportWorld{b, a, a.again(w.other)} {
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if status, _ := r.says(i, "dev", "17.2.4", nil); status != http.StatusUnauthorized {
				t.Errorf("host %d, which was removed, reports: %d", i, status)
			}
		}
		if got := r.fleet.Len(); got != 1 {
			t.Errorf("%d hosts are known; want the one", got)
		}
		if status, said := r.says(3, "dev", "17.2.2", nil); status != http.StatusOK {
			t.Errorf("a host of another token: %d %s", status, said.Error)
		}
	}
	if _, err := revoke(true, false); err != store.ErrNotFound {
		t.Errorf("once more: %v", err)
	}
	b.joined(other, "dev", 1)
	b.last[1] = 0
	b.said(1, "dev", "17.2.4", nil)
	if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(1))); inventory.TokenName(&e) != "other" {
		t.Errorf("%+v", e)
	}
}
