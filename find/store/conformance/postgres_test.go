package conformance

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
	"teleport-update/find/store/postgres/pgtest"
)

func TestStoresAreCopiedBothWays(t *testing.T) {
	server := pgtest.Start(t)
	var number int
	database := func(t *testing.T) store.Store {
		number++
		s, err := postgres.Open(t.Context(), postgres.Options{URL: server.Database(fmt.Sprint("copy", number))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	file := func(t *testing.T) store.Store {
		s, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	t.Run("from a file", func(t *testing.T) { Copies(t, file(t), database(t), database(t)) })
	t.Run("to a file", func(t *testing.T) { Copies(t, database(t), file(t), file(t)) })
	t.Run("from one database to another", func(t *testing.T) { Copies(t, database(t), database(t), database(t)) })
}

func TestPostgreSQLConforms(t *testing.T) {
	server := pgtest.Start(t)
	var number atomic.Int32
	Run(t, func(t *testing.T) (one, other store.Store) {
		address := server.Database(fmt.Sprint("store", number.Add(1)))
		var both [2]*postgres.Store
		for i := range both {
			s, err := postgres.Open(t.Context(), postgres.Options{URL: address})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			both[i] = s
		}
		return both[0], both[1]
	})
}
