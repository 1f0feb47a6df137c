package transaction

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/state"
)

// A switch whose journal somebody removed is told by what it left.
func TestASwitchWithoutAJournalIsToldByItsBackup(t *testing.T) {
	migrated := func(h *databaseHost) {
		c, err := sqlite3.Open(h.path())
		must(t, err)
		must(t, c.Exec("CREATE TABLE migrated (n INTEGER); PRAGMA user_version=2"))
		must(t, c.Close())
	}
	for _, tc := range []struct {
		name string
		last time.Duration // after the backup, the last outcome
		do   func(*databaseHost)
		told bool
	}{
		{name: "the database was changed since", last: -time.Minute, do: migrated, told: true},
		{name: "the switch was the first one", do: migrated, told: true},
		{name: "the database is as it was", last: -time.Minute, do: func(*databaseHost) {}},
		{name: "the switch has an outcome", last: time.Minute, do: migrated},
		{name: "the backup was not finished", last: -time.Minute, do: func(h *databaseHost) {
			migrated(h)
			must(t, os.Remove(h.keeps("1.1.0")+"/backup/backup.yaml"))
		}},
		{name: "there is no database any more", last: -time.Minute, do: func(h *databaseHost) { must(t, os.Remove(h.path())) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newDatabaseHost(t)
			h.left("1.1.0", time.Hour)
			if tc.last != 0 {
				h.config.Status.LastUpdate = &state.LastUpdate{Time: noon.Add(tc.last - time.Hour), Target: "1.1.0", Result: state.Succeeded}
			}
			tc.do(h)
			err := h.CheckEnded(t.Context(), h.config)
			if told := err != nil && strings.Contains(err.Error(), h.path()) && strings.Contains(err.Error(), "its journal is gone"); told != tc.told || err != nil && !told {
				t.Errorf("it says %v; want a word on the switch: %v", err, tc.told)
			}
		})
	}
}
