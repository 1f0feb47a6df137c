package backup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestADatabaseThatCannotBeBackedUpIsRefusedAndTheOldBackupKept(t *testing.T) {
	overwrite := func(offset int64, data string) func(*testing.T, string) {
		return func(t *testing.T, db string) {
			f, err := os.OpenFile(db, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte(data), offset); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		damage func(t *testing.T, db string)
		probed bool // cheap to see
		want   string
	}{
		"a header overwritten":             {overwrite(0, "not a database.."), true, "no header of an SQLite"},
		"an encrypted file":                {overwrite(0, string(make([]byte, 8192))), true, "no header of an SQLite"},
		"a page in the middle lost":        {overwrite(20*4096, strings.Repeat("\xff", 4096)), false, "database disk image is malformed|Tree|page"},
		"a tree page that does not add up": {overwrite(2*4096+7, "\x09"), false, "Fragmentation"},
		"the schema page damaged":          {overwrite(100, strings.Repeat("\xee", 400)), true, "malformed"},
		"a nonsensical page size":          {overwrite(16, "\x00\x03"), true, "not a database"},
		"a file cut short":                 {func(t *testing.T, db string) { must(t, os.Truncate(db, 9*4096+100)) }, true, "malformed"},
		"a file shorter than a header": {func(t *testing.T, db string) {
			must(t, os.WriteFile(db, []byte("SQLite format 3\x00"), 0o600))
		}, true, "not a database"},
		"an empty file with a WAL": {func(t *testing.T, db string) {
			must(t, os.Truncate(db, 0))
			must(t, os.WriteFile(db+"-wal", []byte("frames"), 0o600))
		}, true, "empty"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 2000, 1)
			h.take(t, "15.1.0")
			tt.damage(t, h.db)
			before := tree(t, filepath.Dir(filepath.Dir(h.db)))

			err := probe(t.Context(), h.db)
			if _, ok := errors.AsType[*CorruptError](err); ok != tt.probed {
				t.Errorf("Probe: %v", err)
			}
			err = take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.1")})
			corrupt, ok := errors.AsType[*CorruptError](err)
			if !ok {
				t.Fatalf("Take: %v; want a *CorruptError", err)
			}
			if corrupt.Path != h.db || !containsAny(corrupt.Error(), tt.want) {
				t.Errorf("Take: %v; want the path and %q", corrupt, tt.want)
			}
			wantSameTree(t, filepath.Dir(filepath.Dir(h.db)), before)
		})
	}
}

func TestAFailedBackupLeavesNoFolder(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 2000, 1)
	must(t, os.Truncate(h.db, 9*4096))
	must(t, os.MkdirAll(filepath.Dir(h.dir), 0o755))
	if err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")}); err == nil {
		t.Fatal("a damaged database was backed up")
	}
	wantFiles(t, filepath.Dir(h.dir))
}

func TestOnlyTheAgentsOwnRegularFilesAreRead(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "secret.db")
	makeDB(t, elsewhere, "", 10, 1)
	link := func(suffix string) func(*testing.T, string) {
		return func(t *testing.T, db string) {
			os.Remove(db + suffix)
			must(t, os.Symlink(elsewhere, db+suffix))
		}
	}
	tests := map[string]struct {
		plant func(t *testing.T, db string)
		want  string
	}{
		"a link":            {link(""), "symbolic link"},
		"a dangling link":   {func(t *testing.T, db string) { os.Remove(db); must(t, os.Symlink("/nowhere", db)) }, "symbolic link"},
		"a link as WAL":     {link("-wal"), "symbolic link"},
		"a link as index":   {link("-shm"), "symbolic link"},
		"a link as journal": {link("-journal"), "symbolic link"},
		"a hard link":       {func(t *testing.T, db string) { os.Remove(db); must(t, os.Link(elsewhere, db)) }, "hard links"},
		"a folder":          {func(t *testing.T, db string) { os.Remove(db); must(t, os.Mkdir(db, 0o755)) }, "folder"},
		"a pipe":            {func(t *testing.T, db string) { os.Remove(db); must(t, unix.Mkfifo(db, 0o600)) }, "not a regular file"},
		"a pipe as journal": {func(t *testing.T, db string) { must(t, unix.Mkfifo(db+"-journal", 0o600)) }, "not a regular file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			makeDB(t, h.db, "", 10, 1)
			h.take(t, "15.1.0")
			tt.plant(t, h.db)
			before := tree(t, filepath.Dir(h.dir))
			for what, err := range map[string]error{
				"Take":    take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.1")}),
				"Probe":   probe(t.Context(), h.db),
				"Restore": restore(t.Context(), h.db, h.dir),
			} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v; want an error with %q", what, err, tt.want)
				}
			}
			wantSameTree(t, filepath.Dir(h.dir), before)
		})
	}
}

func TestTheFolderOfTheDatabaseMayBeALink(t *testing.T) {
	h := newHost(t)
	elsewhere := t.TempDir()
	makeDB(t, filepath.Join(elsewhere, "a b?c#%41", "sqlite.db"), "PRAGMA journal_mode=wal", 10, 1)
	must(t, os.Symlink(filepath.Join(elsewhere, "a b?c#%41"), filepath.Dir(h.db)))
	h.take(t, "15.1.0")
	h.wantBackup(t, "15.1.0", state{10, 1})
	must(t, restore(t.Context(), h.db, h.dir))
}

func TestAHostWithoutADatabaseSaysSo(t *testing.T) {
	h := newHost(t)
	for range 2 { // without the folder, then with it
		err := take(t.Context(), h.db, TakeRequest{Dir: h.dir, Meta: metaOf("15.1.0")})
		if !errors.Is(err, ErrNoDatabase) {
			t.Errorf("Take: %v; want ErrNoDatabase", err)
		}
		if err := probe(t.Context(), h.db); !errors.Is(err, ErrNoDatabase) {
			t.Errorf("Probe: %v; want ErrNoDatabase", err)
		}
		if _, err := sizeAt(h.db); !errors.Is(err, ErrNoDatabase) {
			t.Errorf("Size: %v; want ErrNoDatabase", err)
		}
		if _, err := os.Stat(h.dir); err == nil {
			t.Error("a backup folder was made")
		}
		must(t, os.MkdirAll(filepath.Dir(h.db), 0o700))
	}
}
