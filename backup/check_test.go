package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEachReasonAgainstABackupIsToldApart(t *testing.T) {
	h := newHost(t)
	rewrite := func(from, to string) func(*testing.T) {
		return func(t *testing.T) {
			path := filepath.Join(h.dir, metaName)
			data, err := os.ReadFile(path)
			must(t, err)
			changed := strings.ReplaceAll(string(data), from, to)
			if changed == string(data) {
				t.Fatalf("backup.yaml does not hold %q:\n%s", from, data)
			}
			must(t, os.WriteFile(path, []byte(changed), 0o600))
		}
	}
	remove := func(name string) func(*testing.T) {
		return func(t *testing.T) { must(t, os.RemoveAll(filepath.Join(h.dir, name))) }
	}
	put := func(name, content string) func(*testing.T) {
		return func(t *testing.T) {
			must(t, os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600))
		}
	}
	link := func(name string) func(*testing.T) {
		return func(t *testing.T) {
			path := filepath.Join(h.dir, name)
			must(t, os.Rename(path, path+".moved"))
			must(t, os.Symlink(path+".moved", path))
		}
	}
	flip := func(offset int64) func(*testing.T) {
		return func(t *testing.T) {
			f, err := os.OpenFile(h.copied(), os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			var b [1]byte
			_, err = f.ReadAt(b[:], offset)
			must(t, err)
			_, err = f.WriteAt([]byte{b[0] ^ 1}, offset)
			must(t, err)
		}
	}
	nothing := func(*testing.T) {}
	bomb := "version: v1\nkind: db_backup\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9)+fmt.Sprintf("*a%d", i))
	}

	tests := map[string]struct {
		change func(t *testing.T)
		want   func(w *Want)
		reason Reason // empty: valid
		text   string
	}{
		"what was taken":                {nothing, nil, "", ""},
		"another spelling of the proxy": {nothing, func(w *Want) { w.Proxy = "https://Tenant.Example.com/" }, "", ""},
		"fields it does not know":       {put("backup.yaml.more", ""), nil, "", ""},
		"any age":                       {nothing, func(w *Want) { w.MaxAge, w.Now = 0, noon.AddDate(20, 0, 0) }, "", ""},
		"a clock set back a little":     {nothing, func(w *Want) { w.Now = noon.Add(-time.Minute) }, "", ""},
		"just young enough":             {nothing, func(w *Want) { w.Now = noon.Add(time.Hour) }, "", ""},
		"an RFD's file, without ours": {put(metaName, "version: v1\nkind: db_backup\nspec:\n  proxy: tenant.example.com\n  version: 15.1.0\n  creation_time: 2024-05-06T12:00:00+00:00\n  future: {x: 1}\n"),
			nil, "", ""},

		"no folder":            {remove("."), nil, Missing, "does not exist"},
		"an empty folder":      {func(t *testing.T) { remove(metaName)(t); remove(FileName)(t) }, nil, Missing, "does not exist"},
		"no backup.yaml":       {remove(metaName), nil, Incomplete, "has no backup.yaml: it was restored already, is of the past, or was not finished"},
		"no database":          {remove(FileName), nil, Incomplete, "no sqlite.db"},
		"another proxy":        {nothing, func(w *Want) { w.Proxy = "other.example.com:443" }, OtherProxy, `"other.example.com:443"`},
		"another port":         {nothing, func(w *Want) { w.Proxy = "tenant.example.com:3080" }, OtherProxy, "3080"},
		"another version":      {nothing, func(w *Want) { w.Version = "15.1.1" }, OtherVersion, `"15.1.0"`},
		"another edition":      {nothing, func(w *Want) { w.Edition = "oss" }, OtherEdition, `"oss"`},
		"too old":              {nothing, func(w *Want) { w.Now = noon.Add(time.Hour + time.Second) }, TooOld, "1h0m1s old"},
		"from the future":      {nothing, func(w *Want) { w.Now = noon.Add(-time.Hour) }, FromFuture, "2024-05-06T12:00:00Z"},
		"a bit in a row":       {flip(20*4096 + 2100), nil, Damaged, "checksum"},
		"a tree page":          {func(t *testing.T) { flip(2 * 4096)(t); rewrite("crc32c:", "other:")(t) }, nil, Damaged, "damaged"},
		"a header":             {flip(0), nil, Damaged, "no header of an SQLite"},
		"cut short":            {func(t *testing.T) { must(t, os.Truncate(h.copied(), 4096)) }, nil, Damaged, "bytes"},
		"a WAL beside it":      {put("sqlite.db-wal", "frames"), nil, Damaged, "journal lies beside"},
		"a link as database":   {link(FileName), nil, Damaged, "symbolic link"},
		"a link as yaml":       {link(metaName), nil, Damaged, "symbolic link"},
		"a folder as yaml":     {func(t *testing.T) { remove(metaName)(t); must(t, os.Mkdir(filepath.Join(h.dir, metaName), 0o700)) }, nil, Damaged, "not a regular file"},
		"a folder as database": {func(t *testing.T) { remove(FileName)(t); must(t, os.Mkdir(h.copied(), 0o700)) }, nil, Damaged, "folder"},
		"not YAML":             {put(metaName, "{{{{"), nil, Damaged, "yaml"},
		"an empty yaml":        {put(metaName, ""), nil, Damaged, "kind"},
		"another kind":         {rewrite("db_backup", "agent_versions"), nil, Damaged, "kind"},
		"a later format":       {rewrite("version: v1", "version: v2"), nil, Damaged, `"v2"`},
		"no time":              {rewrite("2024-05-06T12:00:00Z", "yesterday"), nil, Damaged, "creation_time"},
		"an endless yaml":      {put(metaName, strings.Repeat("# nothing\n", 1<<20)), nil, Damaged, "larger than"},
		"a YAML bomb":          {put(metaName, bomb), nil, Damaged, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h = newHost(t)
			makeDB(t, h.db, "PRAGMA journal_mode=wal", 500, 1)
			h.take(t, "15.1.0")
			tt.change(t)
			want := wantOf("15.1.0")
			if tt.want != nil {
				tt.want(&want)
			}
			before := treeOrNothing(t, h.dir)
			begin := time.Now()
			err := Check(t.Context(), h.dir, want)
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if before != nil {
				wantSameTree(t, h.dir, before)
			}
			if tt.reason == "" {
				if err != nil {
					t.Errorf("Check: %v; want it valid", err)
				}
				return
			}
			invalid, ok := errors.AsType[*InvalidError](err)
			if !ok || invalid.Reason != tt.reason || invalid.Dir != h.dir {
				t.Fatalf("Check: %v; want %q", err, tt.reason)
			}
			if text := invalid.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, h.dir) {
				t.Errorf("Check says %q; want it to hold the folder and %q", text, tt.text)
			}
		})
	}
}

func treeOrNothing(t *testing.T, dir string) map[string]string {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	return tree(t, dir)
}

func TestTheMetadataHasTheShapeOfTheRFD(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 1, 1)
	h.take(t, "15.1.0")
	data, err := os.ReadFile(filepath.Join(h.dir, metaName))
	must(t, err)
	want := `version: v1
kind: db_backup
spec:
    proxy: tenant.example.com:443
    version: 15.1.0
    creation_time: "2024-05-06T12:00:00Z"
    edition: enterprise
    size: `
	if !strings.HasPrefix(string(data), want) {
		t.Errorf("backup.yaml is\n%s\nwant it to begin\n%s", data, want)
	}
	if got, err := read(h.dir); err != nil || got != metaOf("15.1.0") {
		t.Errorf("Read: %v, %v; want what was written", got, err)
	}
}

func TestASchemaIsTheSameUntilAMigration(t *testing.T) {
	tests := map[string]struct {
		sql  string
		same bool
	}{
		"untouched":              {"", true},
		"other rows":             {"DELETE FROM a WHERE id > 50; UPDATE b SET gen = 7", true},
		"statistics":             {"ANALYZE", true},
		"another user_version":   {"PRAGMA user_version = 2", false},
		"a table more":           {"CREATE TABLE c (x)", false},
		"a column more":          {"ALTER TABLE a ADD COLUMN extra TEXT", false},
		"an index less":          {"DROP INDEX b_gen", false},
		"the same table, a view": {"DROP TABLE a; CREATE VIEW a AS SELECT 1 AS id", false},
	}
	for name, tt := range tests {
		for _, mode := range []string{"wal", "delete"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				h := newHost(t)
				makeDB(t, h.db, "PRAGMA journal_mode="+mode, 100, 1)
				h.take(t, "15.1.0")
				execDB(t, h.db, tt.sql)
				before := tree(t, filepath.Dir(h.db))
				same, err := sameSchema(t.Context(), h.db, h.dir)
				if same != tt.same || err != nil {
					t.Errorf("SameSchema: %v, %v; want %v", same, err, tt.same)
				}
				wantSameTree(t, filepath.Dir(h.db), before)
			})
		}
	}
}

func TestASchemaIsReadUnderTheAgentAndAfterItsDeath(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "PRAGMA journal_mode=wal", 100, 1)
	h.take(t, "15.1.0")
	p := start(t, "write", h.db)
	if same, err := sameSchema(t.Context(), h.db, h.dir); !same || err != nil {
		t.Errorf("under a writer: %v, %v; want true", same, err)
	}
	p.kill()
	if same, err := sameSchema(t.Context(), h.db, h.dir); !same || err != nil {
		t.Errorf("after a kill: %v, %v; want true", same, err)
	}
	must(t, os.Remove(h.db+"-shm"))
	if same, err := sameSchema(t.Context(), h.db, h.dir); same || !errors.Is(err, ErrUnsettled) {
		t.Errorf("before recovery: %v, %v; want that it cannot be told", same, err)
	}
}

// What keeps a backup from being read is not always in the backup.
func TestABackupThatIsNotReadBecauseOfAnInterruptionIsNotDamaged(t *testing.T) {
	h := newHost(t)
	makeDB(t, h.db, "", 40, 1)
	h.take(t, "15.1.0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := at(h.db, func(d *Database) (bool, error) { return d.SameSchema(ctx, h.dir) })
	if _, invalid := errors.AsType[*InvalidError](err); invalid || !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want an interruption", err)
	}
}
