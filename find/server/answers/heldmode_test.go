package answers

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// A server whose answers cannot be made with the mode that people want does not say that it is in force.
func TestAModeThatIsNotInTheAnswersIsSaid(t *testing.T) {
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStored(t.Context(), StoredOptions{Store: kept, Base: find.Answer{Version: "17.2.1", Edition: version.OSS}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.current.Load().items = []store.Item{{Key: rollout.KindConfig, Value: []byte("this is none"), Revision: 1}}
	suspend := func() error { return s.HoldMode(t.Context(), rollout.Suspended, store.Audit{}) }
	if err := suspend(); err == nil || !strings.Contains(err.Error(), "is written, and not in force on this server yet") {
		t.Errorf("it says %v", err)
	}
	kept.Close()
	if err := suspend(); err == nil || !strings.Contains(err.Error(), "neither in force") {
		t.Errorf("without the store it says %v", err)
	}
	if held := s.Held(); len(held) != 1 || !strings.Contains(held[0], "the mode suspended is not in force") {
		t.Errorf("%q is held", held)
	}
}
