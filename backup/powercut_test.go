package backup

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/integration/powercut"
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
