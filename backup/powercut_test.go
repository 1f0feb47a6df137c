package backup

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/integration/powercut"
	"teleport-update/internal/folder"
)

const powerCutTimes = 2

// disk is a file system whose power can be cut: what was not synced is lost.
type disk struct{ *powercut.Disk }

func newDisk(t *testing.T) disk {
	t.Helper()
	return disk{powercut.New(t, noPowerCuts)}
}

// cut cuts the power, and turns it on again once the process is gone.
func (d disk) cut(t *testing.T, p *process) {
	t.Helper()
	must(t, d.Cut())
	if p != nil {
		p.kill()
	}
	must(t, d.Restore())
}

// sync makes what is there the state before all cuts.
func (d disk) sync(t *testing.T) {
	t.Helper()
	must(t, d.Sync())
}

func TestAFinishedBackupSurvivesAPowerCutAndAnUnfinishedOneIsNone(t *testing.T) {
	d := newDisk(t)
	h := host{db: filepath.Join(d.Dir, "proc", "sqlite.db"), dir: filepath.Join(d.Dir, "versions", "15.1.0", "backup")}
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 4000, 1)
	d.sync(t)
	whole := duration(t, "take", h.db, h.dir, "1.0.0")
	d.cut(t, nil)
	h.wantBackup(t, "1.0.0", state{4000, 1})

	for range powerCutTimes {
		p := start(t, "take", h.db, h.dir, "2.0.0")
		killSometime(t, p, whole, func() { d.cut(t, p) })
		if meta, err := read(h.dir); err == nil {
			if err := Check(t.Context(), h.dir, wantOf(meta.Version)); err != nil {
				t.Fatal(err)
			}
		}
		h.take(t, "1.0.0")
		d.cut(t, nil)
		h.wantBackup(t, "1.0.0", state{4000, 1})
	}
}

func TestARestoreSurvivesAPowerCutAndABrokenOneIsAllOldOrAllNew(t *testing.T) {
	for name, prepare := range spoilt {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			h := host{db: filepath.Join(d.Dir, "proc", "sqlite.db"), dir: filepath.Join(d.Dir, "versions", "15.1.0", "backup")}
			makeDB(t, h.db, "", 4000, 1)
			h.take(t, "15.1.0")
			old := prepare(t, h.db)
			d.sync(t)
			whole := duration(t, "restore", h.dir, h.db)
			for range powerCutTimes {
				d.cut(t, nil)
				if got := inspect(t, h.db); got != (state{4000, 1}) {
					t.Fatalf("after a finished restore the database holds %v", got)
				}
				must(t, os.RemoveAll(filepath.Dir(h.db)))
				prepare(t, h.db)
				d.sync(t)
				p := start(t, "restore", h.dir, h.db)
				killSometime(t, p, whole, func() { d.cut(t, p) })
				if got := inspect(t, h.db); got != old && got != (state{4000, 1}) {
					t.Fatalf("the database holds %v; want %v or the backup", got, old)
				}
				must(t, restore(t.Context(), h.db, h.dir))
			}
		})
	}
}

// A boot may give the disk of the agent's data another device number: its folder is
// known all the same, by the file system: a database whose restore was cut off cannot be read
// by then. Its tables tell of others.
func TestTheSameDiskIsKnownUnderAnotherDeviceNumberAfterAPowerCut(t *testing.T) {
	for _, kind := range []powercut.Kind{powercut.Ext4, powercut.XFS} {
		t.Run(string(kind), func(t *testing.T) {
			powercut.Require(t, noPowerCuts)
			powercut.Require(t, powercut.Available(kind, powercut.Ext4))
			image := filepath.Join(t.TempDir(), "image")
			must(t, powercut.Format(image, kind))
			d, err := powercut.Mount(image, kind, filepath.Join(t.TempDir(), "disk"))
			must(t, err)
			h := host{db: filepath.Join(d.Dir, "proc", "sqlite.db"), dir: filepath.Join(t.TempDir(), "backup")}
			makeDB(t, h.db, "", 40, 1)
			h.take(t, "15.1.0")
			execDB(t, h.db, "CREATE TABLE c (id INTEGER PRIMARY KEY); UPDATE b SET gen = 2; PRAGMA user_version = 2")
			must(t, d.Sync())
			id := func(boot string) (*Database, folder.ID) {
				db, err := Open(h.db)
				must(t, err)
				t.Cleanup(func() { db.Close() })
				id, err := db.Folder(boot)
				must(t, err)
				return db, id
			}
			db, before := id("boot 1")
			must(t, db.Close())
			must(t, d.Cut())
			must(t, d.Unmount())
			powercut.New(t, noPowerCuts) // takes the number
			must(t, d.Mount())
			t.Cleanup(func() { must(t, d.Unmount()) })
			db, after := id("boot 2")
			defer db.Close()
			if before.Device == after.Device {
				t.Fatalf("the device has the same number, %d: this test shows nothing", after.Device)
			}
			if !after.Same(before) || after.Differs(before) {
				t.Errorf("%+v is not known as %+v", after, before)
			}
			if known, err := db.DescendsFrom(t.Context(), h.dir); known != SameTables || err != nil {
				t.Errorf("its database is not known: %v", err)
			}
			must(t, db.Restore(t.Context(), h.dir))
			if got := inspect(t, h.db); got != (state{40, 1}) {
				t.Errorf("the database holds %v", got)
			}
			makeDB(t, h.db+"2", "", 1, 1)
			must(t, db.Close())
			another, err := Open(h.db + "2")
			must(t, err)
			defer another.Close()
			execDB(t, h.db+"2", "DROP TABLE a")
			if known, err := another.DescendsFrom(t.Context(), h.dir); known != NoDescent || err != nil {
				t.Errorf("a database without its tables is taken for it: %v", err)
			}
		})
	}
}
