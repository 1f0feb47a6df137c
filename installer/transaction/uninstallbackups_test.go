package transaction

import (
	"path/filepath"
	"testing"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
)

// migrated is a host whose agent was installed by hand, and is replaced by a version
// that migrated its database.
func migrated(t *testing.T) *model {
	t.Helper()
	m := firstEnable(t, holds)
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err != nil {
		t.Fatal(err)
	}
	if m.seen.schema != 2 {
		t.Fatalf("the database has schema %d", m.seen.schema)
	}
	m.calls = nil
	return m
}

func (m *model) leave(withAgent bool) (error, bool) {
	return m.runs(func() error {
		_, err := m.Uninstall(m.t.Context(), withAgent)
		return err
	})
}

// keptSchemas are those of the backups that outlive the updater, by their folders.
func (m *model) keptSchemas() map[int]string {
	m.t.Helper()
	kept := map[int]string{}
	dirs, _ := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
	for _, dir := range dirs {
		live := m.db
		m.db = filepath.Join(dir, backup.FileName)
		kept[m.readDatabase().schema] = filepath.Base(dir)
		m.db = live
	}
	return kept
}

// What an agent of another schema could start with is kept, whatever the agent of after is.
func TestAnUninstallKeepsTheOnlyBackupOfASchema(t *testing.T) {
	m := migrated(t)
	if err, _ := m.leave(false); err != nil {
		t.Fatal(err)
	}
	if kept := m.keptSchemas(); len(kept) != 1 || kept[1] != "before-enable" || host.Exists(m.Host.Paths.Versions()) {
		t.Errorf("kept: %v; want the database of before", kept)
	}
	if m.main == nil || m.seen.schema != 2 {
		t.Errorf("the agent is %+v, on schema %d", m.main, m.seen.schema)
	}
}

func TestAnUninstallKeepsNoBackupWhoseSchemaIsLive(t *testing.T) {
	m := firstEnable(t, holds)
	m.versions["1.1.0"] = one
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err != nil {
		t.Fatal(err)
	}
	rows := len(m.seen.rows)
	if err, _ := m.leave(false); err != nil {
		t.Fatal(err)
	}
	if err := m.sound(); err != nil || host.Exists(m.Host.Paths.KeptBackups()) || len(m.seen.rows) < rows {
		t.Errorf("%v; kept: %v; of %d rows %d are left", err, m.keptSchemas(), rows, len(m.seen.rows))
	}
}

// A host that was enabled, left and enabled again has backups of two lives, and the tables of both may be the same.
func TestAnUninstallKeepsTheNewestBackupOfASchema(t *testing.T) {
	for name, tc := range map[string]struct {
		kept func(b *backup.Meta) // what there is already, beside the backup of the store
		want bool                 // that one is kept, too
	}{
		"an older one of an earlier uninstall":     {func(b *backup.Meta) { b.Created = b.Created.Add(-time.Second) }, true},
		"one of another cluster":                   {func(b *backup.Meta) { b.Proxy, b.Created = "other", b.Created.Add(time.Hour) }, true},
		"the same one, by a move that was cut off": {func(*backup.Meta) {}, false},
		"a newer one, that was moved before":       {func(b *backup.Meta) { b.Created = b.Created.Add(time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := migrated(t)
			store := filepath.Join(m.Host.Paths.Original(), "backup")
			meta, err := backup.MetaOf(store)
			must(t, err)
			newest := meta.Created
			tc.kept(&meta)
			db, err := backup.Open(filepath.Join(store, backup.FileName))
			must(t, err)
			defer db.Close()
			earlier := filepath.Join(m.Host.Paths.KeptBackups(), "before-enable")
			_, err = db.Take(t.Context(), backup.TakeRequest{Dir: earlier, Meta: meta})
			must(t, err)
			if err, _ := m.leave(false); err != nil {
				t.Fatal(err)
			}
			dirs, _ := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
			if len(dirs) != 1 && !tc.want || len(dirs) != 2 && tc.want || !host.Exists(earlier) {
				t.Fatalf("kept: %q", dirs)
			}
			if created, err := backup.Created(dirs[len(dirs)-1]); tc.want && (err != nil || !created.Equal(newest)) {
				t.Errorf("%s was taken at %s, %v; want that of the store, of %s", dirs[1], created, err, newest)
			}
		})
	}
}
