package conformance

import (
	"fmt"
	"sync/atomic"
	"testing"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
	"teleport-update/find/store/postgres/pgtest"
)

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
