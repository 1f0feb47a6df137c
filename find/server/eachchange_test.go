package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// mortal is the store of a server that is killed at one of its changes: before it is made, or
// after it and before anybody hears of it. From then on it does nothing.
type mortal struct {
	store.Store
	left  int // changes until then; none: it lives
	after bool
	dead  bool
	made  int
}

var errKilled = errors.New("the server was killed")

func (m *mortal) change(make func() error) error {
	if m.dead {
		return errKilled
	}
	m.made++
	if m.left--; m.left != 0 {
		return make()
	}
	m.dead = true
	if m.after {
		if err := make(); err != nil {
			return err
		}
	}
	return errKilled
}

func (m *mortal) Commit(ctx context.Context, c store.Change) (r []store.Revision, err error) {
	err = m.change(func() error { r, err = m.Store.Commit(ctx, c); return err })
	return r, err
}

func (m *mortal) Put(ctx context.Context, key string, value []byte, based store.Revision) (r store.Revision, err error) {
	err = m.change(func() error { r, err = m.Store.Put(ctx, key, value, based); return err })
	return r, err
}

func (m *mortal) Delete(ctx context.Context, key string, based store.Revision) error {
	return m.change(func() error { return m.Store.Delete(ctx, key, based) })
}

func (m *mortal) Purge(ctx context.Context, now time.Time) (n int, err error) {
	err = m.change(func() error { n, err = m.Store.Purge(ctx, now); return err })
	return n, err
}

// A server is killed at each change of its store, on either side of it, and another goes on. Whatever was
// acknowledged is there; each step of each rollout is in the history once and in the order of a server that
// lives; no host is told a version that the rollout of the store does not name, and never are more hosts
// of a plan on their way than it allows.
func TestAServerKilledAtEachChange(t *testing.T) {
	whole := runTale(t, 0, false)
	if len(whole.steps) < 11 {
		t.Fatalf("without a kill there are the steps %q", whole.steps)
	}
	points := 0
	t.Run("points", func(t *testing.T) {
		for at := 1; at <= whole.changes; at++ {
			if testing.Short() && at%10 != 0 {
				continue
			}
			for _, after := range []bool{false, true} {
				points++
				t.Run(fmt.Sprintf("%d, after it %t", at, after), func(t *testing.T) {
					t.Parallel()
					if got := runTale(t, at, after); !slices.Equal(got.steps, whole.steps) {
						t.Errorf("the steps are\n%s\nwant\n%s", strings.Join(got.steps, "\n"), strings.Join(whole.steps, "\n"))
					}
				})
			}
		}
	})
	t.Logf("kills of the find server at changes of its store: %d points of %d changes", points, whole.changes)
}

// tale is a rollout that is told by one server, and after a kill by another.
type tale struct {
	t       *testing.T
	w       *storeWorld
	r       *reportWorld
	m       *mortal
	tokens  int
	token   string
	version []rollout.Semver // that each host runs
	told    []rollout.Semver // and was told to come to
	known   []rollout.Semver // and has said, which was acknowledged
	mode    [2]string        // that was acknowledged, and that is asked for
	target  [2]rollout.Semver
	revoked bool // the last host
	changes int
	steps   []string

	revoking bool // that was asked for, and may have been done
}

func groupOf(i int) string { return []string{"dev", "prod"}[min(i/3, 1)] }

const taleHosts = 7

func runTale(t *testing.T, at int, after bool) *tale {
	s := &tale{t: t, w: newStoreWorld(t)}
	s.w.options.Log = slog.New(slog.DiscardHandler)
	s.m = &mortal{Store: s.w.store, left: at, after: after}
	s.r = s.w.reporting(newClock(), s.m)
	s.version, s.told, s.known = slices.Repeat([]rollout.Semver{"17.2.0"}, taleHosts), make([]rollout.Semver, taleHosts), make([]rollout.Semver, taleHosts)
	s.until(s.configured("enabled"))
	s.until(func() error {
		s.tokens++
		made, err := s.r.fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: fmt.Sprint("token-", s.tokens)}, store.Audit{Who: "uid 0"}, false)
		s.token = made.Token
		return err
	})
	for i := range taleHosts {
		s.until(func() error {
			s.r.secrets[i] = secretOf(i)
			status, said := s.r.joins(i, s.token, secretOf(i), groupOf(i))
			if status == http.StatusOK {
				s.known[i] = "joined"
			}
			return answered(status, said)
		})
	}
	s.until(func() error {
		s.revoking = true
		_, err := s.r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(taleHosts-1)), store.Audit{Who: "uid 0"}, false)
		if errors.Is(err, store.ErrNotFound) {
			err = nil // the server that was killed has done it
		}
		s.revoked = s.revoked || err == nil
		return err
	})
	s.until(s.wanted("17.2.0", "17.2.1"))
	s.reach("active unstarted")
	s.until(s.configured("suspended"))
	s.rounds(2)
	s.until(s.configured("enabled"))
	s.reach("done active")
	s.rounds(3)
	s.until(s.wanted("17.2.1", "17.2.2")) // in the middle of it
	s.reach("canary unstarted")
	s.reach("done active")
	s.until(func() error {
		_, err := s.r.engine.Order(t.Context(), rollout.Order{Verb: rollout.MarkDone, Who: "uid 0", Groups: []string{"prod"}}, false)
		return err
	})
	s.reach("done done")
	s.changes = s.m.made
	records, err := s.w.other.History(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range slices.Backward(records) {
		if record.Key == rollout.KindRollout && (record.Who == driver.EngineName || len(s.steps) > 0 && record.What != s.steps[len(s.steps)-1]) {
			s.steps = append(s.steps, strings.Split(record.What, ", ")...)
		}
	}
	return s
}

func answered(status int, said find.HeartbeatError) error {
	if status != http.StatusOK {
		return fmt.Errorf("%d: %s", status, said.Error)
	}
	return nil
}

// until does something until it is acknowledged, by a new server where the one there was is killed.
func (s *tale) until(do func() error) {
	s.t.Helper()
	err := do()
	if s.m.dead { // and whatever it said, nobody has heard it
		s.m.dead, s.m.left = false, 0
		s.m = &mortal{Store: s.w.store, made: s.m.made}
		s.r = s.r.again(s.m)
		s.check()
		err = do()
		_, refused := errors.AsType[*rollout.RefusedError](err)
		if refused || errors.Is(err, store.ErrNotFound) {
			err = nil // it was done before anybody heard of it
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// check compares what a new server knows with what was acknowledged.
func (s *tale) check() {
	s.t.Helper()
	get := func(kind string) rollout.Resource {
		r, err := s.r.stored.Get(s.t.Context(), kind, "")
		if err != nil {
			return nil
		}
		return r
	}
	if c, ok := get(rollout.KindConfig).(*rollout.Config); s.mode[0] != "" && (!ok || !slices.Contains(s.mode[:], string(c.Spec.Agents.Mode))) {
		s.t.Errorf("mode %s was acknowledged, and the config is %+v", s.mode[0], c)
	}
	if v, ok := get(rollout.KindVersion).(*rollout.Version); s.target[0] != "" && (!ok || !slices.Contains(s.target[:], v.Spec.Agents.TargetVersion)) {
		s.t.Errorf("target %s was acknowledged, and the version is %+v", s.target[0], v)
	}
	for i := range taleHosts {
		e, ok := s.r.fleet.Entry(rollout.ParseHostID(hostUUID(i)))
		switch {
		case i == taleHosts-1 && s.revoked:
			if status, _ := s.r.says(i, groupOf(i), "17.2.0", nil); status != http.StatusUnauthorized {
				s.t.Errorf("a host that was revoked reports, and hears %d", status)
			}
		case i == taleHosts-1 && s.revoking && !ok:
		case s.known[i] != "" && !ok, strings.HasPrefix(string(s.known[i]), "17.2.") && s.known[i] != "17.2.0" && e.Version < s.known[i]:
			s.t.Errorf("host %d has said %s, and is known as %+v", i, s.known[i], e)
		}
	}
}

func (s *tale) configured(mode string) func() error {
	return func() error {
		s.mode[1] = mode
		text := strings.Replace(enabledGroups("{name: dev, days: ['*'], start_hour: 11, canary_count: 1}, {name: prod, days: ['*'], start_hour: 12, max_in_flight: 1}"), "mode: enabled", "mode: "+mode, 1)
		_, err := s.r.stored.Apply(s.t.Context(), parseAll(s.t, text), answers.ApplyOptions{Who: "uid 0"})
		if err == nil && !s.m.dead {
			s.mode[0] = mode
		}
		return err
	}
}

func (s *tale) wanted(start, target string) func() error {
	return func() error {
		s.target[1] = rollout.Semver(target)
		text := strings.NewReplacer("17.2.0", start, "17.2.1", target).Replace(scheduled)
		if target == "17.2.2" { // at any hour
			text = strings.Replace(text, "agents: {", "agents: {schedule: critical, ", 1)
		}
		_, err := s.r.stored.Apply(s.t.Context(), parseAll(s.t, text), answers.ApplyOptions{Who: "uid 0"})
		if err == nil && !s.m.dead {
			s.target[0] = rollout.Semver(target)
		}
		return err
	}
}

// reach has the fleet live until the groups are so far.
func (s *tale) reach(states string) {
	s.t.Helper()
	for range 400 {
		s.rounds(1)
		if got := s.r.states(); got == states {
			return
		}
	}
	s.t.Fatalf("the groups are %s; want %s", s.r.states(), states)
}

// rounds are polls of each host, one after the other, and looks of the engine.
func (s *tale) rounds(n int) {
	s.t.Helper()
	for range n {
		s.r.clock.pass(5 * time.Minute)
		for i := range taleHosts - 1 {
			s.poll(i)
		}
		s.until(func() error { return s.r.fleet.Tick(s.t.Context()) })
		s.until(func() error { _, err := s.r.engine.Tick(s.t.Context()); return err })
	}
}

// poll is what a host does: an update that it is told of ends before the next one.
func (s *tale) poll(i int) {
	s.t.Helper()
	if s.told[i] != "" {
		s.version[i], s.told[i] = s.told[i], ""
	}
	a := s.r.stored.AnswerTo(rollout.Query{Group: groupOf(i), Host: hostUUID(i)})
	if a.AutoUpdate && rollout.Semver(a.Version) != s.version[i] {
		s.told[i] = rollout.Semver(a.Version)
	}
	item, err := s.w.other.Get(s.t.Context(), rollout.KindRollout)
	if err == nil {
		r := parseAll(s.t, string(item.Value))[0].(*rollout.Rollout)
		if v := rollout.Semver(a.Version); a.AutoUpdate && v != r.Spec.TargetVersion || v != r.Spec.StartVersion && v != r.Spec.TargetVersion && v != s.target[0] {
			s.t.Errorf("host %d is told %+v, and the rollout is %+v", i, a, r.Spec)
		}
		underWay := 0
		for k, told := range s.told {
			if groupOf(k) == "prod" && told != "" {
				underWay++
			}
		}
		if underWay > 1 && r.Status.Groups[1].State == rollout.Active {
			s.t.Errorf("%d hosts of the plan are on their way: %v", underWay, s.told)
		}
	} else if a.AutoUpdate {
		s.t.Errorf("host %d is told %+v without a rollout", i, a)
	}
	s.until(func() error {
		status, said := s.r.says(i, groupOf(i), string(s.version[i]), func(b *find.Heartbeat) {
			b.Told = string(s.told[i])
		})
		if status == http.StatusOK && !s.m.dead {
			s.known[i] = s.version[i]
		}
		return answered(status, said)
	})
}
