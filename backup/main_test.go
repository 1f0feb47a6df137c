package backup

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/integration/powercut"
)

// The test binary is also the other processes of these tests: BACKUP_TEST_ROLE
// says which one it is.
func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv("BACKUP_TEST_ROLE")]
	if !ok {
		noPowerCuts = powercut.OwnMounts()
		os.Exit(m.Run())
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// noPowerCuts is why the tests that cut power are skipped.
var noPowerCuts error

// read returns what the backup in dir says of itself, without looking at its
// database.
func read(dir string) (Meta, error) {
	r, err := readMetadata(dir)
	return r.Meta, err
}

func metaOf(version string) Meta {
	return Meta{Proxy: "tenant.example.com:443", Version: version, Edition: "enterprise", Created: noon}
}

var noon = time.Date(2024, 5, 6, 12, 0, 0, 0, time.UTC)

func wantOf(version string) Want {
	return Want{Proxy: "tenant.example.com:443", Version: version, Edition: "enterprise", MaxAge: time.Hour, Now: noon.Add(time.Minute)}
}

// makeDB creates a database of the given generation with rows in both tables,
// about a kilobyte for each three rows.
func makeDB(t *testing.T, path, pragmas string, rows, generation int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Exec(pragmas + `; PRAGMA synchronous=off; BEGIN;
		CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB);
		CREATE TABLE b (id INTEGER PRIMARY KEY, gen INTEGER NOT NULL);
		CREATE INDEX b_gen ON b (gen);` + fmt.Sprintf(`
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO a SELECT i, randomblob(300) FROM n;
		INSERT INTO b SELECT id, %d FROM a;
		PRAGMA user_version = %d; COMMIT`, rows, generation, generation))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
}

// execDB runs SQL on a database as its only user.
func execDB(t *testing.T, path, sql string) {
	t.Helper()
	c, err := openWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

// state is what a database holds, as far as these tests care.
type state struct{ rows, generation int }

// inspect opens a copy of the database and its sidecars as the agent would open
// the original, and makes sure that it is sound and of one piece.
func inspect(t *testing.T, path string) state {
	t.Helper()
	look := filepath.Join(t.TempDir(), "look.db")
	for _, suffix := range append([]string{""}, sidecars[:]...) {
		data, err := os.ReadFile(path + suffix)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(look+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := openWriter(look)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check, _, err := c.Prepare("PRAGMA integrity_check")
	if err != nil {
		t.Fatal(err)
	}
	defer check.Close()
	for check.Step() {
		if got := check.ColumnText(0); got != "ok" {
			t.Fatalf("integrity_check of %s: %s", path, got)
		}
	}
	var n [5]int
	for i, query := range []string{
		"SELECT count(*) FROM a", "SELECT coalesce(max(id), 0) FROM a", "SELECT count(*) FROM b",
		"PRAGMA user_version", "SELECT count(*) FROM b WHERE gen NOT IN (0, (SELECT max(gen) FROM b))",
	} {
		if n[i], err = scalar(c, query); err != nil {
			t.Fatalf("%s: %s: %v", path, query, err)
		}
	}
	if n[0] != n[1] || n[0] != n[2] || n[4] != 0 {
		t.Fatalf("%s is not the state of one moment: %d rows up to %d, %d beside them, %d of another generation", path, n[0], n[1], n[2], n[4])
	}
	return state{n[0], n[3]}
}

// tree describes every file below dir: name, mode, owner and content. The
// content of a WAL index is nobody's concern.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		what := fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
		if info.Mode().IsRegular() && !strings.HasSuffix(path, "-shm") {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		}
		files[path] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantSameTree(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := tree(t, dir)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			t.Errorf("%s is %q; was %q", name, after[name], before[name])
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q; want %q", dir, got, want)
	}
}
