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
