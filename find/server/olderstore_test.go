package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// failOver has a copy of the store take its place, in a new epoch, as a standby does that is promoted.
func (w *storeWorld) failOver(copied string) {
	w.t.Helper()
	file, err := sqlite3.Open(copied)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := file.Exec(fmt.Sprintf(`INSERT INTO history (time, who, what, why, key, from_revision, to_revision)
		SELECT 0, 'store', 'the database has failed over', '', 'database', revision, revision + %[1]d FROM head;
		UPDATE head SET revision = revision + %[1]d`, int64(store.EpochStep))); err != nil {
		w.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		w.t.Fatal(err)
	}
	replaceStore(w.t, w.path, copied)
}

// goBack is a failover to a standby that lacks what came after an item; somebody has written the item since, as it is.
func (w *storeWorld) goBack(item store.Item) {
	w.t.Helper()
	w.failOver(copyStore(w.t, w.path))
	w.put(item.Key, string(item.Value))
}

func (w *storeWorld) item(key string) store.Item {
	w.t.Helper()
	item, err := w.other.Get(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return item
}

// The store loses a halt: no host is told to update, not for a moment, and the halt is in the store again. It stays away
// once a person lets the group go on.
func TestAnOlderStoreLetsNoGroupGoOn(t *testing.T) {
	w, r, _, fail := braking(t)
	other := w.control(r.clock, w.other)
	active := w.item(rollout.KindRollout)
	fail(0)
	r.tick()
	servers := []*control{r.control, other}
	told := func(when string, want bool) {
		t.Helper()
		for i, s := range servers {
			s.stored.Refresh(t.Context())
			if s.told() != want {
				t.Errorf("%s, server %d tells hosts to update: %t\n%s", when, i, s.told(), w.log.String())
			}
		}
	}
	told("after a failure", false)
	w.goBack(active)
	told("after the failover", false)
	r.tick()
	if r.rollout().Status.Groups[0].Halted == nil {
		t.Error("the halt is not in the store again")
	}
	told("when it is written", false)
	for i, s := range servers {
		if held := s.stored.Held(); len(held) > 0 {
			t.Errorf("server %d still holds %q, though it is written", i, held)
		}
	}
	if _, err := r.engine.Order(t.Context(), rollout.Order{Who: "uid 0", Verb: rollout.Retry, Groups: []string{"dev"}}, false); err != nil {
		t.Fatal(err)
	}
	told("after a retry", true)
	other.tick()
	told("after a look of the other server", true)
	if log := w.log.String(); strings.Count(log, "groups stay halted") != 2 {
		t.Errorf("not each server says so:\n%s", log)
	}
}

// The store loses a halt and the next rollout, which people had ordered because of it.
func TestAnOlderStoreKeepsTheHaltsOfARolloutThatWasReplaced(t *testing.T) {
	w, r, _, fail := braking(t)
	before := map[string]store.Item{rollout.KindVersion: w.item(rollout.KindVersion), rollout.KindRollout: w.item(rollout.KindRollout)}
	fail(0)
	r.tick()
	if r.rollout().Status.Groups[0].Halted == nil || r.told() {
		t.Fatal("the group is not halted")
	}
	w.write(strings.ReplaceAll(scheduled, "17.2.1", "17.2.2"))
	r.tick()
	r.stored.Refresh(t.Context())
	if got := r.rollout().Spec.TargetVersion; got != "17.2.2" {
		t.Fatalf("the rollout is to %s", got)
	}
	w.goBack(before[rollout.KindVersion])
	w.put(rollout.KindRollout, string(before[rollout.KindRollout].Value))
	r.stored.Refresh(t.Context())
	if r.told() {
		t.Error("hosts are told to update to the version that was halted")
	}
	r.tick()
	if got := r.rollout(); got.Spec.TargetVersion != "17.2.1" || got.Status.Groups[0].Halted == nil {
		t.Errorf("the store has a rollout to %s, halted: %+v", got.Spec.TargetVersion, got.Status.Groups[0].Halted)
	}
}

// The store loses a mode, whichever resource has it: it stays in force, and is in the store again.
func TestAnOlderStoreKeepsAModeThatStops(t *testing.T) {
	stops := strings.Replace(immediate, "target_version", "mode: suspended, target_version", 1)
	for name, tc := range map[string]struct{ lost, mode string }{
		"of the configuration":        {suspended, "suspended"},
		"of the version":              {stops, "suspended"},
		"a configuration without one": {unset, "disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			w.write(enabled)
			w.write(immediate)
			s := w.open()
			before := w.item(parseAll(t, tc.lost)[0].GetKind())
			w.write(tc.lost)
			s.Refresh(t.Context())
			w.goBack(before)
			s.Refresh(t.Context())
			if held := s.Held(); s.AnswerTo(rollout.Query{}).AutoUpdate || len(held) != 1 || !strings.Contains(held[0], tc.mode) {
				t.Errorf("hosts are told %+v, and %q is held", s.AnswerTo(rollout.Query{}), held)
			}
			(&control{t: t, stored: s}).watchUntilWritten()
			if text := string(w.item(rollout.KindConfig).Value); !strings.Contains(text, tc.mode) {
				t.Errorf("the store has %s", text)
			}
			// A person who enables it is obeyed.
			w.write(enabled)
			s.Refresh(t.Context())
			if held := s.Held(); !s.AnswerTo(rollout.Query{}).AutoUpdate || len(held) > 0 {
				t.Errorf("hosts are told %+v, and %q is held", s.AnswerTo(rollout.Query{}), held)
			}
		})
	}
}

// goneAfter is a store that goes away once it has acknowledged a change of the rollout.
type goneAfter struct{ *awayStore }

func (s goneAfter) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	revisions, err := s.awayStore.Commit(ctx, c)
	if err == nil && slices.ContainsFunc(c.Writes, func(w store.Write) bool { return w.Key == rollout.KindRollout }) {
		s.away.Store(true)
	}
	return revisions, err
}

// A halt is acknowledged, and the database is lost with it before anybody has read it.
func TestAHaltThatNobodyHasReadOutlivesAFailover(t *testing.T) {
	w, r, _, _ := braking(t)
	standby := copyStore(t, w.path)
	away := &awayStore{Store: w.other}
	s := r.again(goneAfter{away})
	s.says(0, "dev", "17.2.0", func(b *find.Heartbeat) { failedAt("17.2.1", "it broke")(b) })
	s.engine.Tick(t.Context())
	if held := s.stored.Held(); !away.away.Load() || s.told() || r.states() != "active!" || len(held) > 0 {
		t.Fatalf("hosts are told to update: %t; the group is %s; %q is held\n%s", s.told(), r.states(), held, w.log.String())
	}
	w.failOver(standby)
	away.away.Store(false)
	if err := s.stored.Refresh(t.Context()); err != nil || s.told() {
		t.Errorf("%v; hosts are told to update: %t\n%s", err, s.told(), w.log.String())
	}
	s.engine.Tick(t.Context())
	away.away.Store(false)
	if s.stored.Refresh(t.Context()); r.states() != "active!" || s.told() {
		t.Errorf("the group is %s", r.states())
	}
}
