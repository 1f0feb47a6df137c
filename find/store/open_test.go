package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestTheStoreIsForItsOwnerAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "state", "store", "store.db")
	s := openStore(t, path)
	put(t, s, "a", "1", None)
	for name, want := range map[string]fs.FileMode{filepath.Dir(path): fs.ModeDir | 0o700, path: 0o600, path + "-wal": 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	s.Close()
	check := openStore(t, path)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	check.Close()
	openStore(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("opened again: %v, %v", info.Mode(), err)
	}
}

func TestEveryChangeIsSynced(t *testing.T) {
	s := openStore(t, newPath(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "application_id": "1953523315", "user_version": "2"} {
		got := ""
		err := query(s.conn, "PRAGMA "+pragma, nil, func(stmt *sqlite3.Stmt) bool { got = stmt.ColumnText(0); return false })
		if err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
		}
	}
}

func TestWhatIsNoStoreOfOursIsRefusedAndStaysAsItIs(t *testing.T) {
	sql := func(statements string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			c, err := sqlite3.Open(path)
			if err == nil {
				err = errors.Join(c.Exec(statements), c.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ours := func(t *testing.T, path string) {
		s, err := OpenSQLite(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", strings.Repeat("x", 20000), None)
		put(t, s, "b", "1", None)
		s.Close()
	}
	edited := func(edit func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			ours(t, path)
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, edit(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name string
		make func(*testing.T, string)
		want string
	}{
		{"the database of another program", sql("CREATE TABLE t (a)"), "another program"},
		{"a database with another mark", sql("PRAGMA application_id = 7"), "another program"},
		{"a database with a version only", sql("PRAGMA user_version = 1"), "another program"},
		{"another program's with a log", sql("PRAGMA journal_mode = WAL; CREATE TABLE t (a)"), "another program"},
		{"text", func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("agent_version: 15.1.1\n", 50)) }, "not an SQLite database: put it aside"},
		{"an empty file with a log", func(t *testing.T, path string) { writeFile(t, path, ""); writeFile(t, path+"-wal", "x") }, "its -wal is not"},
		{"a symbolic link", func(t *testing.T, path string) {
			ours(t, filepath.Dir(path)+"/other.db")
			if err := os.Symlink("other.db", path); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		{"a folder", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, "directory"},
		{"a named pipe", func(t *testing.T, path string) { syscall.Mkfifo(path, 0o600) }, "not a regular file"},
		{"one of a newer version", func(t *testing.T, path string) { ours(t, path); sql("PRAGMA user_version = 3")(t, path) }, "newer version of this program (its schema is 3, and this one knows 2)"},
		{"one of an impossible version", func(t *testing.T, path string) { ours(t, path); sql("PRAGMA user_version = -1")(t, path) }, "its schema is -1"},
		{"one without its revision", func(t *testing.T, path string) { ours(t, path); sql("DELETE FROM head")(t, path) }, "lost its revision"},
		{"a damaged one of an older version", func(t *testing.T, path string) {
			sql(create+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1; INSERT INTO resources VALUES ('a', zeroblob(20000), 1)", applicationID))(t, path)
			if err := os.Truncate(path, int64(len(content(t, path))-4096)); err != nil {
				t.Fatal(err)
			}
		}, "it is damaged"},
		{"one that was cut off", edited(func(data []byte) []byte { return data[:len(data)-4096] }), "it is damaged"},
		{"one with a page of zeros", edited(func(data []byte) []byte { clear(data[4096:8192]); return data }), "it is damaged"},
		{"one with a page of zeros and a log", func(t *testing.T, path string) {
			edited(func(data []byte) []byte { clear(data[4096:8192]); return data })(t, path)
			c, err := sqlite3.Open(path)
			if err == nil {
				_, kept := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
				err = errors.Join(kept, c.Exec("PRAGMA user_version = 2"), c.Close())
			}
			if err != nil || len(content(t, path+"-wal")) == 0 {
				t.Fatalf("there is no log: %v", err)
			}
		}, "it is damaged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := newPath(t)
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			tc.make(t, path)
			before, log := content(t, path), content(t, path+"-wal")
			s, err := OpenSQLite(t.Context(), path)
			if err == nil {
				s.Close()
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if !bytes.Equal(content(t, path), before) || !bytes.Equal(content(t, path+"-wal"), log) {
				t.Error("it was changed")
			}
		})
	}
}

func TestAFolderThatOthersMayEnterIsRefused(t *testing.T) {
	for mode, taken := range map[fs.FileMode]bool{0o700: true, 0o500: false, 0o750: false, 0o701: false, 0o722: false} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSQLite(t.Context(), dir+"/store.db")
		if err == nil {
			s.Close()
		}
		if (err == nil) != taken && !(mode == 0o500 && os.Geteuid() == 0) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(t.Context(), dir+"/store.db"); err == nil || !strings.Contains(err.Error(), "belongs to the user with id 1") {
		t.Errorf("a folder of another user: %v", err)
	}
}

// SQLite would go on writing into a file that has no name any more.
func TestAStoreThatIsTakenAwayIsMissed(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path)
	put(t, s, "a", "1", None)
	dir := filepath.Dir(path)
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(dir, dir+".away")
	if _, err := s.Put(t.Context(), "a", []byte("2"), 1); err == nil || !strings.Contains(err.Error(), "the file is gone") {
		t.Errorf("a change without the file: %v", err)
	}
	if _, _, err := s.List(t.Context(), ""); err == nil {
		t.Error("there is a revision without the file")
	}
	move(dir+".away", dir)
	put(t, s, "a", "2", 1)

	// Another store in its place, as after the restore of a copy, with an item of the same revision.
	of, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy", "store.db")
	other := openStore(t, copied)
	put(t, other, "a", "of the copy", None)
	other.Close()
	move(dir, dir+".away")
	move(filepath.Dir(copied), dir)
	if item, err := s.Get(t.Context(), "a"); err != nil || string(item.Value) != "of the copy" {
		t.Errorf("after the exchange: %q, %v", item.Value, err)
	}
	change := Change{Writes: []Write{{Key: "a", Value: []byte("of the one before"), Based: 1}}, Of: of}
	if _, err := s.Commit(t.Context(), change); !errors.Is(err, ErrReplaced) {
		t.Errorf("what was computed from the store before is written to its copy: %v", err)
	}
	if change.Of, err = s.Identity(t.Context()); err != nil {
		t.Fatal(err)
	}
	change.Writes[0].Value = []byte("of the copy")
	if _, err := s.Commit(t.Context(), change); err != nil {
		t.Error(err)
	}
	// Where there was a store, an empty file is not one: it is being copied.
	move(path, path+".away")
	writeFile(t, path, "")
	if _, _, err := s.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "the file is empty") || len(content(t, path)) > 0 {
		t.Errorf("an empty file in its place: %v, and it has %d bytes", err, len(content(t, path)))
	}
	move(path+".away", path)
	put(t, s, "b", "1", None)
	if again := openStore(t, path); again != nil {
		if item, err := again.Get(t.Context(), "b"); err != nil || string(item.Value) != "1" {
			t.Errorf("what was written after the exchange: %q, %v", item.Value, err)
		}
	}
	s.Close()
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func writeFile(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// content is empty for what is no file.
func content(t *testing.T, path string) []byte {
	t.Helper()
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A large store is in use at once, and looked at for damage meanwhile: then each operation says what to do.
func TestALargeStoreIsCheckedWhileItIsInUse(t *testing.T) {
	path := newPath(t)
	s, err := OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var change Change
	for i := range 300 {
		change.Writes = append(change.Writes, Write{Key: fmt.Sprint("k", i), Value: bytes.Repeat([]byte{byte(i)}, checkAtOnce/256)})
	}
	if _, err := s.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, damaged := range []bool{false, true} {
		if data := content(t, path); damaged {
			clear(data[len(data)/2/4096*4096:][:4096])
			writeFile(t, path, string(data))
		}
		if s, err = OpenSQLite(t.Context(), path); err != nil {
			t.Fatalf("damaged %v: it is not open: %v", damaged, err)
		}
		if s.whole == nil {
			t.Fatal("nobody looks at it")
		}
		<-s.whole.ended
		_, err = s.Get(t.Context(), "k1")
		if says := err != nil && strings.Contains(err.Error(), "it is damaged"); says != damaged || !damaged && err != nil {
			t.Errorf("damaged %v: %v", damaged, err)
		}
		s.Close()
	}
	if s, err = OpenSQLite(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s.Close() // which ends the check, too
	select {
	case <-s.whole.ended:
	default:
		t.Error("the check goes on after the store was closed")
	}
}
