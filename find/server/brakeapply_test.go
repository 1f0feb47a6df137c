package server

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// While a suspend is held that could not be written, an apply that says nothing of the mode does not lift it: a program that
// applies the same configuration again, or another field of it. Another mode does.
func TestAnApplyLiftsNoSuspendThatIsNotWritten(t *testing.T) {
	groups := "{name: dev, days: ['*'], start_hour: 11, max_failed_before_halt: 0%}"
	config := enabledGroups(groups)
	for name, tc := range map[string]struct {
		apply         string
		refused, told bool
		held          string
	}{
		"the same again":            {config, true, false, "suspended"},
		"another hour":              {strings.Replace(config, "start_hour: 11", "start_hour: 14", 1), true, false, "suspended"},
		"another version":           {strings.Replace(scheduled, "17.2.1", "17.2.2", 1), false, false, "suspended"},
		"a mode that stops as well": {strings.Replace(config, "mode: enabled", "mode: disabled", 1), false, false, ""},
		"the mode unset":            {strings.Replace(config, "mode: enabled, ", "", 1), false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, failing, _ := braking(t)
			failing.fail = true
			if err := r.stored.HoldMode(t.Context(), rollout.Suspended, store.Audit{Who: "uid 0"}); err == nil {
				t.Fatal("the mode is written")
			}
			failing.fail = false
			for _, dry := range []bool{true, false} {
				applied, err := r.stored.Apply(t.Context(), parseAll(t, tc.apply), answers.ApplyOptions{DryRun: dry})
				if refused := err != nil; refused != tc.refused || refused && !strings.Contains(err.Error(), "the mode suspended is in force on this server and not yet written") {
					t.Errorf("dry run: %t: %v", dry, err)
				}
				if applied.Answer.AutoUpdate {
					t.Errorf("dry run: %t: it says that hosts are told to update", dry)
				}
			}
			if held := strings.Join(r.stored.Held(), "\n"); r.told() != tc.told || tc.held == "" && held != "" || !strings.Contains(held, tc.held) {
				t.Errorf("told to update: %t; %q is held", r.told(), held)
			}
			r.watchUntilWritten()
			r.clock.pass(time.Second)
			r.tick()
			if r.told() {
				t.Error("once all is written, hosts are told to update")
			}
		})
	}
}

// Whoever applies another mode than the store has lifts what is held.
func TestAnotherModeLiftsASuspendThatIsNotWritten(t *testing.T) {
	w := newStoreWorld(t)
	w.write(unset)
	w.write(immediate)
	failing := &failingStore{Store: w.store, fail: true}
	w.options.Store = failing
	s := w.open()
	if err := s.HoldMode(t.Context(), rollout.Suspended, store.Audit{Who: "uid 0"}); err == nil {
		t.Fatal("the mode is written")
	}
	failing.fail = false
	applied, err := s.Apply(t.Context(), parseAll(t, enabled), answers.ApplyOptions{})
	if held := s.Held(); err != nil || !applied.Answer.AutoUpdate || !s.AnswerTo(rollout.Query{}).AutoUpdate || len(held) > 0 {
		t.Errorf("%v: hosts are told %+v, and %q is held", err, s.AnswerTo(rollout.Query{}), held)
	}
}
