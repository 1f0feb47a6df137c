package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// A failover loses nothing, and people then let a halted group go on: no server halts it again, whether or not it has read
// the store between the two.
func TestAGroupThatIsLetGoAfterAFailoverStaysSo(t *testing.T) {
	for name, tc := range liftings {
		for between, reads := range map[string]bool{"read between": true, "not read between": false} {
			t.Run(name+", "+between, func(t *testing.T) {
				w, r, _, fail := braking(t)
				other := r.again(w.other)
				fail(0)
				r.tick()
				for _, s := range []*reportWorld{r, other} {
					if err := s.stored.Refresh(t.Context()); err != nil || s.told() {
						t.Fatalf("%v; hosts are told to update: %t", err, s.told())
					}
				}
				w.failOver(copyStore(t, w.path))
				if reads {
					other.stored.Refresh(t.Context())
				}
				r.order(tc.orders)
				for range 2 {
					for i, s := range []*reportWorld{other, r} {
						s.clock.pass(time.Second)
						if err := s.stored.Refresh(t.Context()); err != nil {
							t.Fatal(err)
						}
						if held := s.stored.Held(); s.told() != tc.told || len(held) > 0 {
							t.Errorf("server %d tells hosts to update: %t, and holds %q", i, s.told(), held)
						}
						s.tick()
					}
				}
				if got := r.states(); got != tc.states {
					t.Errorf("the group is %s", got)
				}
			})
		}
	}
}

// The same of a mode.
func TestEnableAfterAFailoverIsNotUndone(t *testing.T) {
	stops := strings.Replace(immediate, "target_version", "mode: suspended, target_version", 1)
	for name, tc := range map[string]struct{ config, version, enable string }{
		"of the configuration": {suspended, immediate, enabled},
		"of the version":       {enabled, stops, immediate},
	} {
		for between, reads := range map[string]bool{"read between": true, "not read between": false} {
			t.Run(name+", "+between, func(t *testing.T) {
				w := newStoreWorld(t)
				w.write(tc.config)
				w.write(tc.version)
				servers := []*answers.Stored{w.open(), w.open()}
				w.failOver(copyStore(t, w.path))
				if reads {
					servers[1].Refresh(t.Context())
				}
				if _, err := servers[0].Apply(t.Context(), parseAll(t, tc.enable), answers.ApplyOptions{Who: "uid 0"}); err != nil {
					t.Fatal(err)
				}
				for i, s := range servers {
					if err := s.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
					if held := s.Held(); !s.AnswerTo(rollout.Query{}).AutoUpdate || len(held) > 0 {
						t.Errorf("server %d tells hosts %+v, and holds %q", i, s.AnswerTo(rollout.Query{}), held)
					}
				}
			})
		}
	}
}

// A server that knows a suspend is cut off, over a failover or not. What people have set meanwhile stands when it returns, also
// if it could not write the suspend itself; what a failover has lost, or nobody has lifted, does not go on.
func TestWhatPeopleSetWhileAServerIsCutOffStands(t *testing.T) {
	type scene struct {
		*storeWorld
		clock      *clock
		there, cut *answers.Stored
		standby    string // lacks the suspend
	}
	set := func(text string) func(*scene) {
		return func(w *scene) {
			w.t.Helper()
			w.clock.pass(time.Minute)
			if _, err := w.there.Apply(w.t.Context(), parseAll(w.t, text), answers.ApplyOptions{Who: "uid 0"}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	loses := func(w *scene) { w.failOver(w.standby); w.there.Refresh(w.t.Context()) }
	keeps := func(w *scene) { w.failOver(copyStore(w.t, w.path)); w.there.Refresh(w.t.Context()) }
	silently := func(w *scene) { replaceStore(w.t, w.path, copyStore(w.t, w.path)) } // the standby has made no change yet
	puts := func(w *scene) { (&control{t: w.t, stored: w.there}).watchUntilWritten() }
	suspends := func(w *scene) { // on the server that is cut off
		w.clock.pass(time.Minute)
		if err := w.cut.HoldMode(w.t.Context(), rollout.Suspended, store.Audit{Who: "uid 0"}); err == nil {
			w.t.Error("the mode is written by a server that is cut off")
		}
	}
	other := strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: [{name: x, start_hour: 1}]}", 1)
	for name, tc := range map[string]struct {
		known string // what the server has read before it is cut off
		then  []func(*scene)
		told  bool
	}{
		"enable, and a failover that loses nothing":              {suspended, []func(*scene){set(enabled), keeps}, true},
		"enable, and a failover without a change since":          {suspended, []func(*scene){set(enabled), silently}, true},
		"a failover that loses nothing":                          {suspended, []func(*scene){keeps}, false},
		"a failover that loses it":                               {suspended, []func(*scene){loses}, false},
		"a failover that loses it and enable, which are lost":    {suspended, []func(*scene){set(enabled), loses, puts}, false},
		"a failover that loses it, and another edit":             {suspended, []func(*scene){loses, puts, set(strings.Replace(other, "mode: enabled", "mode: suspended", 1))}, false},
		"a failover that loses it, and enable":                   {suspended, []func(*scene){loses, puts, set(enabled)}, true},
		"a failover that loses it, suspend and enable":           {suspended, []func(*scene){loses, puts, set(unset), set(suspended), set(enabled)}, true},
		"a suspend that is held, and nothing else":               {enabled, []func(*scene){suspends}, false},
		"a suspend that is held, and an edit of something else":  {enabled, []func(*scene){suspends, set(other)}, false},
		"a suspend that is held, suspend and enable elsewhere":   {enabled, []func(*scene){suspends, set(suspended), set(enabled)}, true},
		"enable elsewhere, and a suspend that is held after it":  {suspended, []func(*scene){set(enabled), suspends}, false},
		"a suspend that is held, a failover, suspend and enable": {enabled, []func(*scene){suspends, keeps, set(suspended), set(enabled)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &scene{storeWorld: newStoreWorld(t), clock: newClock()}
			w.options.Clock = w.clock.Now
			w.write(immediate)
			w.write(enabled)
			w.standby = copyStore(t, w.path)
			w.there = w.open()
			set(tc.known)(w)
			away := &awayStore{Store: w.other}
			w.options.Store = away
			w.cut = w.open()
			away.away.Store(true)
			for _, do := range tc.then {
				do(w)
			}
			w.clock.pass(time.Minute)
			away.away.Store(false)
			(&control{t: t, stored: w.cut}).watchUntilWritten()
			for range 2 {
				if err := w.cut.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				(&control{t: t, stored: w.cut}).watchUntilWritten()
			}
			w.there.Refresh(t.Context())
			for i, s := range []*answers.Stored{w.there, w.cut} {
				if got := s.AnswerTo(rollout.Query{}).AutoUpdate; got != tc.told {
					t.Errorf("server %d tells hosts to update: %t\n%s", i, got, w.log.String())
				}
			}
		})
	}
}

// An epoch later, whatever an item's revision was, what people change is theirs.
func TestAnItemOfAnEarlierEpochIsChanged(t *testing.T) {
	w := newStoreWorld(t)
	w.write(suspended)
	w.write(immediate)
	s := w.open()
	w.failOver(copyStore(t, w.path))
	s.Refresh(t.Context())
	w.put("other", "{}") // the revision of the store goes on in the new epoch
	s.Refresh(t.Context())
	w.write(enabled)
	s.Refresh(t.Context())
	if held := s.Held(); !s.AnswerTo(rollout.Query{}).AutoUpdate || len(held) > 0 {
		t.Errorf("hosts are told %+v, and %q is held", s.AnswerTo(rollout.Query{}), held)
	}
}

// The revision of a store falls, and it seems to be the same: a crash has lost what it had acknowledged.
func TestAStoreThatHasLostItsLastChangesKeepsAMode(t *testing.T) {
	w := newStoreWorld(t)
	w.write(immediate)
	w.write(enabled)
	same := &sameStore{Store: w.store}
	w.options.Store = same
	s := w.open()
	copied := copyStore(t, w.path)
	w.write(suspended)
	s.Refresh(t.Context())
	replaceStore(t, w.path, copied)
	s.Refresh(t.Context())
	if held := strings.Join(s.Held(), "\n"); s.AnswerTo(rollout.Query{}).AutoUpdate || !strings.Contains(held, "suspended") {
		t.Errorf("hosts are told %+v, and %q is held", s.AnswerTo(rollout.Query{}), held)
	}
}

// sameStore has one identity, whatever becomes of it.
type sameStore struct{ store.Store }

func (*sameStore) Identity(context.Context) (store.Identity, error) {
	return store.Identity{ID: "the same"}, nil
}
