package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk is a file system whose power can be cut: what was not synced is lost.
type disk struct {
	image, dir string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	must(t, os.WriteFile(d.image, nil, 0o600))
	must(t, os.Truncate(d.image, 64<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", d.image).CombinedOutput(); err != nil {
		t.Skipf("no file system to cut: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, unix.Unmount(d.dir, 0)) })
	return d
}

// shutdown is the ioctl that makes a file system refuse everything from now on,
// without writing anything more. ext4 and xfs have it.
const (
	shutdown      = 0x8004587d
	withoutFlush  = 2
	powerCutTimes = 2
)

// cut cuts the power, and turns it on again once the process is gone.
func (d *disk) cut(t *testing.T, p *process) {
	t.Helper()
	f, err := os.Open(d.dir)
	must(t, err)
	err = unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutFlush)
	f.Close()
	must(t, err)
	if p != nil {
		p.kill()
	}
	must(t, unix.Unmount(d.dir, 0))
	// A copy: another mount namespace may have taken the mount along, and then
	// the same image would come up as it went down.
	next := filepath.Join(t.TempDir(), "image")
	if out, err := exec.Command("cp", "--sparse=always", d.image, next).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	must(t, os.Remove(d.image))
	d.image = next
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

// sync makes what is there the state before all cuts.
func (d *disk) sync(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.dir)
	must(t, err)
	defer f.Close()
	must(t, unix.Syncfs(int(f.Fd())))
}

func TestAFinishedBackupSurvivesAPowerCutAndAnUnfinishedOneIsNone(t *testing.T) {
	d := newDisk(t)
	h := host{db: filepath.Join(d.dir, "proc", "sqlite.db"), dir: filepath.Join(d.dir, "versions", "15.1.0", "backup")}
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 4000, 1)
	d.sync(t)
	whole := duration(t, "take", h.db, h.dir, "1.0.0")
	d.cut(t, nil)
	h.wantBackup(t, "1.0.0", state{4000, 1})

	for range powerCutTimes {
		p := start(t, "take", h.db, h.dir, "2.0.0")
		killSometime(t, p, whole, func() { d.cut(t, p) })
		if meta, err := Read(h.dir); err == nil {
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
			h := host{db: filepath.Join(d.dir, "proc", "sqlite.db"), dir: filepath.Join(d.dir, "versions", "15.1.0", "backup")}
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
				must(t, Restore(t.Context(), RestoreRequest{Dir: h.dir, Target: h.db}))
			}
		})
	}
}
