package conformance

import (
	"path/filepath"
	"testing"

	"teleport-update/find/store"
)

func TestSQLiteConforms(t *testing.T) {
	Run(t, func(t *testing.T) (one, other store.Store) {
		path := filepath.Join(t.TempDir(), "store", "store.db")
		var both [2]*store.SQLite
		for i := range both {
			s, err := store.OpenSQLite(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			both[i] = s
		}
		return both[0], both[1]
	})
}

func TestAStoreInMemoryConforms(t *testing.T) {
	Run(t, func(t *testing.T) (one, other store.Store) {
		s, err := store.OpenMemory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, s
	})
}
