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
