//go:build hosts

package fleet

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

// groups has a canary in dev, a limit on failures in stage, and one at a time in prod.
const groups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 13, canary_count: 1}
      - {name: stage, days: ["*"], start_hour: 15, max_failed_before_halt: 0%}
      - {name: prod, days: ["*"], start_hour: 17, max_in_flight: 1}
`

// play is a fleet in a test. Its methods fail the test.
type play struct {
	*testing.T
	*Fleet
	dev, stage, prod []*Host
}

// newPlay has two hosts in dev, two in stage and three in prod, which run a version and report.
func newPlay(t *testing.T, version string) *play {
	t.Helper()
	if err := host.EnsureTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &play{T: t, Fleet: f}
	t.Cleanup(func() {
		if t.Failed() {
			p.explain()
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	p.sound(version)
	p.find(groups, "apply", "-f", "-")
	p.find("", "set-version", version, "--schedule", "immediate")
	token := strings.TrimSpace(p.find("", "token", "add", "fleet"))
	var all sync.WaitGroup
	for _, group := range []string{"dev", "dev", "stage", "stage", "prod", "prod", "prod"} {
		// One boots after the other, and they install together.
		h, err := f.Add(t.Context(), group)
		p.check(err)
		all.Go(func() {
			if err := h.Enable(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	p.dev, p.stage, p.prod = f.Hosts[:2], f.Hosts[2:4], f.Hosts[4:]
	p.pass(30 * time.Minute)
	p.serve(version, f.Hosts...)
	return p
}

func (p *play) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *play) find(input string, args ...string) string {
	p.Helper()
	out, err := p.Find(p.Context(), input, args...)
	p.check(err)
	return out
}

func (p *play) sound(version string) {
	p.Helper()
	p.check(p.Release(release.Spec{Version: version}))
}

// on moves the test's methods to a subtest.
func (p *play) on(t *testing.T) *play {
	q := *p
	q.T = t
	return &q
}

func (p *play) pass(d time.Duration) []int {
	p.Helper()
	codes, err := p.Pass(p.Context(), d)
	p.check(err)
	return codes
}

// at jumps to the next time that a clock shows an hour, after half an hour in which all hosts
// report.
func (p *play) at(hour int) {
	p.Helper()
	now := p.Now()
	next := time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, time.UTC)
	if next.Add(-30 * time.Minute).Before(now) {
		next = next.AddDate(0, 0, 1)
	}
	p.check(p.Jump(next.Add(-30 * time.Minute)))
	p.pass(20 * time.Minute)
	p.check(p.Jump(next))
	p.check(p.Settle(p.Context()))
}

func (p *play) status() adminapi.Overview {
	p.Helper()
	o, err := p.Status(p.Context())
	p.check(err)
	return o
}

func (p *play) group(name string) rollout.GroupOverview {
	p.Helper()
	for _, g := range p.status().Groups {
		if g.Name == name {
			return g
		}
	}
	p.Fatalf("there is no group %s", name)
	panic("unreachable")
}

// is asserts the states of dev, stage and prod.
func (p *play) is(states ...rollout.State) {
	p.Helper()
	var got []rollout.State
	o := p.status()
	for _, g := range o.Groups {
		got = append(got, g.State)
	}
	if !slices.Equal(got, states) {
		p.Errorf("%s: the groups are %v; want %v\n%+v", p.Now(), got, states, o)
	}
}

// until lets time go by, poll by poll, until a group is in a state, and returns how often the
// hosts looked.
func (p *play) until(name string, state rollout.State) (polls int) {
	p.Helper()
	for p.group(name).State != state {
		if polls++; polls > 12 {
			p.Fatalf("%s: %s is %+v; want %s\n%s", p.Now(), name, p.group(name), state, p.ServerLog())
		}
		p.pass(Poll)
	}
	return polls
}

// serve asserts that hosts run a version, with their databases.
func (p *play) serve(version string, hosts ...*Host) {
	p.Helper()
	for _, h := range hosts {
		if err := h.await(func() error { return h.Serves(p.Context(), version) }); err != nil {
			p.Error(err)
		}
	}
}

func (p *play) id(h *Host) string {
	p.Helper()
	id, err := h.ID()
	p.check(err)
	return id
}

func (p *play) hosts() []adminapi.Host {
	p.Helper()
	var all adminapi.Hosts
	p.check(json.Unmarshal([]byte(p.find("", "hosts", "-o", "json")), &all))
	return all.Hosts
}

// known is what the server knows of a host.
func (p *play) known(h *Host) (found adminapi.Host) {
	p.Helper()
	id := p.id(h)
	for _, one := range p.hosts() {
		if one.ID == id {
			return one
		}
	}
	p.Fatalf("the server does not know %s", id)
	return found
}

// shown asserts what hosts and host ID say of a host: its state, and why it does not count.
func (p *play) shown(h *Host, state adminapi.HostState, omitted string) {
	p.Helper()
	if known := p.known(h); known.State != state || known.Omitted != omitted {
		p.Fatalf("%s is known as %+v", h.Name, known)
	}
	why := p.find("", "hosts", p.id(h))
	if !regexp.MustCompile(`(?m)^  state +`+string(state)+`$`).MatchString(why) || omitted != "" != strings.Contains(why, "not counted") || !strings.Contains(why, omitted) {
		p.Errorf("host says of %s\n%s", h.Name, why)
	}
}

// explain says what helps to see why a test failed.
func (p *play) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), host.Patience)
	defer cancel()
	status, err := p.Find(ctx, "", "status")
	p.Logf("%s: status (%v):\n%s\nthe server's log:\n%s", p.Now(), err, status, tail(p.ServerLog(), 60))
	for _, h := range p.Hosts {
		journal, err := h.Journal(ctx, "teleport-update.service")
		p.Logf("%s of %s (%v):\n%s", h.Name, h.Group, err, tail(journal, 15))
	}
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
