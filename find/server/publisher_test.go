package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// A server says once a minute what its hosts run; what is older than three minutes says nothing.
func TestAServerPublishesItsReport(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4}, {name: prod, days: ['*'], start_hour: 5}"))
	w.write(strings.Replace(immediate, "schedule: immediate", "schedule: regular", 1))
	c := newClock()
	r := w.reporting(c, w.options.Store)
	p := r.publisher("find-1")
	get := func(name string) (*rollout.AgentReport, error) {
		one, err := r.stored.Get(t.Context(), rollout.KindReport, name)
		if err != nil {
			return nil, err
		}
		return one.(*rollout.AgentReport), nil
	}
	publish := func(p *driver.Publisher) {
		t.Helper()
		if err := p.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	publish(p)
	if _, err := get("find-1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without hosts there is a report: %v", err)
	}
	r.tick()
	for i, group := range []string{"dev", "dev", "prod"} {
		r.report(i, group, "17.2.0", nil)
	}
	c.pass(2 * time.Minute)
	publish(p)
	got, err := get("find-1")
	if err != nil || !got.Spec.Timestamp.Equal(c.Now()) || got.Spec.Groups["dev"].Versions["17.2.0"].Count != 2 || got.Spec.Groups["prod"].Versions["17.2.0"].Count != 1 {
		t.Fatalf("the report is %+v, %v", got, err)
	}
	before := got.Metadata.Revision
	c.pass(59 * time.Second)
	publish(p)
	if got, err := get("find-1"); err != nil || got.Metadata.Revision != before {
		t.Errorf("within a minute it is written again: %+v, %v", got, err)
	}
	c.pass(time.Second)
	publish(p)
	// Another one of the same machine, or the same after a restart.
	publish(r.publisher("find-1"))
	publish(r.publisher("find-2"))
	if all, err := r.stored.All(t.Context()); err != nil || strings.Count(kindsOf(all), rollout.KindReport) != 2 {
		t.Errorf("there are %s, %v", kindsOf(all), err)
	}
	if records, err := w.options.Store.History(t.Context(), 100); err != nil || strings.Contains(keysOf(records), rollout.KindReport) {
		t.Errorf("the history has %s, %v", keysOf(records), err)
	}
	c.pass(3 * time.Minute)
	if _, err := get("find-1"); err != nil {
		t.Errorf("at three minutes: %v", err)
	}
	c.pass(time.Second)
	if _, err := get("find-1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after three minutes: %v", err)
	}
	if all, err := r.stored.All(t.Context()); err != nil || strings.Contains(kindsOf(all), rollout.KindReport) {
		t.Errorf("after three minutes there are %s, %v", kindsOf(all), err)
	}
}

// The reports of several servers, summed, count each host once, whichever servers it reports to; while servers come and go
// they may miss some, and count none twice.
func TestReportsOfSeveralServersAreSummed(t *testing.T) {
	const hosts = 200
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4}, {name: prod, days: ['*'], start_hour: 5}"))
	w.write(strings.Replace(immediate, "schedule: immediate", "schedule: regular", 1))
	r := w.reporting(newClock(), w.options.Store)
	r.tick()
	minute := func(publishers ...*driver.Publisher) (sum, servers int) {
		t.Helper()
		r.clock.pass(time.Minute)
		for i := range hosts { // what each server knows of the hosts is the same
			r.report(i, []string{"dev", "prod"}[i%2], "17.2.0", func(b *rollout.Heartbeat) { b.Pinned = i%5 == 0 })
		}
		for _, p := range publishers {
			if err := p.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			sum, servers = 0, 0
			all, err := r.stored.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				report, is := one.(*rollout.AgentReport)
				if !is {
					continue
				}
				servers++
				for _, g := range report.Spec.Groups {
					for _, n := range g.Versions {
						sum += n.Count
					}
				}
				for _, o := range report.Spec.Omitted {
					sum += o.Count
				}
			}
			if sum > hosts {
				t.Fatalf("at %s the reports of %d servers count %d of %d hosts", r.clock.Now(), servers, sum, hosts)
			}
		}
		return sum, servers
	}
	a, b, c := r.publisher("find-1"), r.publisher("find-2"), r.publisher("find-3")
	settled := func(n int, publishers ...*driver.Publisher) {
		t.Helper()
		sum, servers := 0, 0
		for range 6 {
			sum, servers = minute(publishers...)
		}
		if sum != hosts || servers != n {
			t.Errorf("the reports of %d servers count %d of %d hosts; want %d servers", servers, sum, hosts, n)
		}
	}
	settled(1, a)
	settled(2, a, b)
	settled(3, a, b, c)
	settled(3, c, a, b, r.publisher("find-1")) // two of one name
	settled(2, b, c)
	settled(1, c)
}

func kindsOf(list []rollout.Resource) (text string) {
	for _, r := range list {
		text += r.GetKind() + " "
	}
	return text
}

func keysOf(records []store.HistoryEntry) (text string) {
	for _, r := range records {
		text += r.Key + " "
	}
	return text
}

func (r *reportWorld) publisher(name string) *driver.Publisher {
	rollout := func() *rollout.Rollout { return r.stored.Resources().Rollout }
	return &driver.Publisher{Name: name, Store: r.w.store, Clock: r.clock.Now, Rollout: rollout, Fleet: r.fleet, Log: r.w.options.Log}
}
