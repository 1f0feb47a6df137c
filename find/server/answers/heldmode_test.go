package answers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// unwritable is a store that can be read only.
type unwritable struct{ store.Store }

func (unwritable) Commit(context.Context, store.Change) ([]store.Revision, error) {
	return nil, errors.New("no space is left")
}

// A server whose answers cannot be made with the mode that people want does not say that it is in force, until they can.
func TestAModeThatIsNotInTheAnswersIsSaid(t *testing.T) {
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for name, tc := range map[string]struct {
		store      store.Store
		mode       rollout.Mode
		says       string
		held, then string
	}{
		"written":     {kept, rollout.Suspended, "is written, and not in force on this server yet", "", ""},
		"not written": {unwritable{kept}, rollout.Disabled, "neither in force", "the mode disabled is not in force (", "the mode disabled is in force on this server only"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewStored(t.Context(), StoredOptions{Store: tc.store, Base: find.Answer{Version: "17.2.1", Edition: version.OSS}, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			s.current.Load().items = []store.Item{{Key: rollout.KindConfig, Value: []byte("this is none"), Revision: 1}}
			if err := s.HoldMode(t.Context(), tc.mode, store.Audit{}); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v", err)
			}
			if held := strings.Join(s.Held(), "\n"); !strings.HasPrefix(held, tc.held) || tc.held == "" && held != "" {
				t.Errorf("%q is held", held)
			}
			if err := s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if held := strings.Join(s.Held(), "\n"); !strings.HasPrefix(held, tc.then) || tc.then == "" && held != "" {
				t.Errorf("once answers can be made, %q is held", held)
			}
		})
	}
}

// Whether a record of the history sets another mode is read from what changed writes.
func TestARecordThatSetsAMode(t *testing.T) {
	config := func(mode rollout.Mode, days ...rollout.Day) *rollout.Config {
		c := rollout.NewConfig()
		c.Spec.Agents.Mode = mode
		if len(days) > 0 {
			c.Spec.Agents.Schedules.Regular = []rollout.Group{{Name: "mode x", Days: days}}
		}
		return c
	}
	for _, tc := range []struct {
		before, after *rollout.Config
		sets          bool
	}{
		{config(rollout.Enabled), config(rollout.Suspended), true},
		{config(rollout.Suspended), config(rollout.Enabled, "Mon"), true},
		{config(""), config(rollout.Enabled), true},
		{config(rollout.Enabled), config(""), true},
		{config(rollout.Enabled), config(rollout.Enabled, "Mon"), false},
	} {
		what := applied + "target 1.0.0 → 2.0.0; " + changed(tc.before, tc.after)
		if got := saysMode(what); got != tc.sets {
			t.Errorf("%q sets a mode: %t", what, got)
		}
	}
}
