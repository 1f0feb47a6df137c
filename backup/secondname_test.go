package backup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The second name is on stable storage, its folder and the name of that too, when the
// caller relies on it; backup.yaml comes last, as in the first place.
func TestASecondNameIsGivenInTheOrderThatSurvivesAPowerCut(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	parent := t.TempDir()
	second := filepath.Join(parent, "rollback")
	must(t, os.Mkdir(second, 0o755))
	must(t, os.WriteFile(filepath.Join(second, FileName), []byte("of another transaction"), 0o600))
	got := calls(t, parent, "second name", h.dir, second)
	first, err := filepath.Rel(parent, h.dir)
	must(t, err)
	for n := range got {
		got[n] = strings.ReplaceAll(got[n], first, "FIRST")
	}
	ends(t, got, "mkdirat rollback", "fchmodat rollback", "fsync rollback", "fsync .",
		"linkat FIRST/sqlite.db rollback/sqlite.db", "fsync rollback", "linkat FIRST/backup.yaml rollback/backup.yaml", "fsync rollback")
}

// By its second name a backup is restored as by its first, whatever becomes of that.
func TestABackupIsRestoredByItsSecondName(t *testing.T) {
	for _, known := range []bool{false, true} {
		h := newHost(t)
		makeDB(t, h.db, "", 40, 1)
		want, err := at(h.db, func(d *Database) (Sum, error) {
			return d.Take(t.Context(), TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")})
		})
		must(t, err)
		second := filepath.Join(t.TempDir(), "rollback")
		must(t, GiveSecondName(h.dir, second))
		if !HasSecondName(h.dir, second) || HasSecondName(h.dir, h.dir+"-other") {
			t.Error("nobody knows that it has one")
		}
		info, err := os.Stat(second)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("it is open to others: %v", info.Mode())
		}
		// Both names are good as long as both are there.
		must(t, restore(context.Background(), h.db, h.dir))
		must(t, os.RemoveAll(h.dir))
		must(t, os.Remove(h.db))
		d, err := Open(h.db)
		must(t, err)
		defer d.Close()
		if known {
			must(t, os.Truncate(filepath.Join(second, metaName), 0))
			d.Knows(want, h.dir, second)
		}
		if err := d.CanRestore(h.dir, nil); err == nil {
			t.Error("the first one is gone, and can be restored")
		}
		must(t, d.CanRestore(second, nil))
		must(t, d.CheckWhole(t.Context(), second))
		must(t, d.Restore(t.Context(), second))
		same, err := d.SameSchema(t.Context(), second)
		if err != nil || !same {
			t.Errorf("the schema is another: %v", err)
		}
		must(t, DropSecondName(second))
		must(t, DropSecondName(second))
	}
}

func TestASecondNameThatCannotBeGivenLeavesNothing(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	must(t, os.Remove(filepath.Join(h.dir, metaName)))
	second := filepath.Join(t.TempDir(), "rollback")
	if err := GiveSecondName(h.dir, second); err == nil {
		t.Error("half a backup has a second name")
	}
	if _, err := os.Lstat(second); err == nil {
		t.Error("something is left")
	}
	if HasSecondName(h.dir, second) {
		t.Error("it has a second name")
	}
}
