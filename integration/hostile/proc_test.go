//go:build hosts

package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The folder of the agent's database may belong to the user that the agent runs
// as: what lies there may lead anywhere, and root reads and writes it.
func procCases() []hostile {
	refused := func(name, says string, given func(*world)) hostile {
		return hostile{name: name, says: says, given: func(w *world) {
			given(w)
			w.chown(w.data("proc"), 1234)
		}}
	}
	taken := func(name string, given func(*world)) hostile {
		return hostile{name: name, code: done, becomes: "1.1.0", given: given, check: func(w *world, _ result) {
			for _, name := range []string{"backup", "backup/sqlite.db", "backup/backup.yaml"} {
				info, err := os.Lstat(w.active(name))
				if err != nil || info.Mode().Perm()&0o077 != 0 {
					w.t.Errorf("%s: %v, %v", name, info, err)
				}
			}
		}}
	}
	side := func(suffix string) func(w *world) string {
		return func(w *world) string { return w.database() + suffix }
	}
	cases := []hostile{
		taken("proc/ and the database belong to another user", func(w *world) { w.owned(w.data("proc")) }),
		taken("proc/ may be written by everybody", func(w *world) { w.chmod(w.data("proc"), 0o777) }),
		refused("the database is no database", "is damaged or not a database", func(w *world) { w.write(w.database(), strings.Repeat("noise ", 1000), 0o600) }),
		refused("the database is a header alone", "", func(w *world) { w.cut(w.database(), 100) }),
		refused("the database is cut in the middle", "", func(w *world) { w.cut(w.database(), 6000) }),
		refused("the database says a page size that is none", "", func(w *world) { w.poke(w.database(), 16, []byte{0x12, 0x34}) }),
		refused("the database says that it is of a newer format", "", func(w *world) { w.poke(w.database(), 18, []byte{9, 9}) }),
		refused("the database says that it holds more pages than it does", "", func(w *world) {
			w.poke(w.database(), 28, binary.BigEndian.AppendUint32(nil, 1<<30))
		}),
		refused("the database's root page is noise", "", func(w *world) { w.poke(w.database(), 100, bytes.Repeat([]byte{0xa5}, 400)) }),
		refused("the database's schema lies about its pages", "", func(w *world) {
			data := []byte(w.read(w.database()))
			at := bytes.Index(data, []byte("CREATE TABLE kv"))
			w.poke(w.database(), at, []byte("CREATE TRASH kv"))
		}),
		refused("the database takes a terabyte of nothing", "not enough space on the file system of", func(w *world) { w.must(os.Truncate(w.database(), 1<<40)) }),
		refused("the database's WAL takes a terabyte of nothing", "", func(w *world) { w.sparse(w.database()+"-wal", 1<<40, 0o600) }),
		refused("the database is empty and its WAL is not", "the file is empty, but its -wal is not", func(w *world) {
			w.cut(w.database(), 0)
			w.write(w.database()+"-wal", strings.Repeat("x", 4096), 0o600)
		}),
		refused("proc/ is a file", "", func(w *world) { w.must(os.RemoveAll(w.data("proc"))); w.write(w.data("proc"), "x", 0o600) }),
		refused("proc/ leads in a circle", "", func(w *world) { w.link(w.data("proc"), w.data("proc")) }),
	}
	for _, f := range []struct {
		name string
		path func(w *world) string
	}{{"the database", side("")}, {"its WAL", side("-wal")}, {"its index", side("-shm")}, {"its journal", side("-journal")}} {
		for _, k := range wrong {
			if f.name == "the database" && k.name == "is a link to nothing" {
				// A link is a link, whatever it leads to.
				cases = append(cases, refused("the database is a link to where nothing is yet", "is a symbolic link", func(w *world) { k.make(w, f.path(w)) }))
				continue
			}
			cases = append(cases, refused(f.name+" "+k.name, map[bool]string{true: "is a symbolic link; the database must be in its folder itself", false: "is "}[strings.Contains(k.name, "link")],
				func(w *world) { k.make(w, f.path(w)) }))
		}
		cases = append(cases, refused(f.name+" is another name of somebody else's file", "has 2 names (hard links)", func(w *world) { w.hardlink(w.outside("secret"), f.path(w)) }))
	}
	return slices.Concat(cases, backupCases())
}

// poke overwrites bytes of a file.
func (w *world) poke(path string, at int, data []byte) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	w.must(err)
	_, err = f.WriteAt(data, int64(at))
	w.must(errors.Join(err, f.Close()))
}

// backupCases are about the backup that a rollback would restore, and about the
// folder that the next one goes to.
func backupCases() []hostile {
	// The host is on 1.1.0, and 1.0.0 has the backup.
	back := func(name, says string, given func(*world)) hostile {
		return hostile{name: name, run: []string{"rollback"}, says: says, given: func(w *world) {
			if r := w.run("update"); r.code != 0 {
				w.t.Fatalf("update: %s", r.stderr)
			}
			given(w)
		}}
	}
	const refusal = "going back to version 1.0.0 is refused"
	dir := func(w *world) string { return w.active("backup") }
	meta := func(w *world) string { return w.active("backup", "backup.yaml") }
	database := func(w *world) string { return w.active("backup", "sqlite.db") }
	edit := func(name, old, new string) hostile {
		return back("backup.yaml "+name, refusal, func(w *world) { w.replace(meta(w), old, new) })
	}
	is := func(name, content string) hostile {
		return back("backup.yaml "+name, refusal, func(w *world) { w.write(meta(w), content, 0o600) })
	}
	cases := []hostile{
		is("is empty", ""),
		is("is noise", "\x00\xff"),
		is("is a bomb of aliases", aliasBomb()),
		is("is nested ten thousand deep", strings.Repeat("[", 20000)),
		is("is of a megabyte", "# "+strings.Repeat("x", 1<<20)),
		is("is of another kind", "version: v1\nkind: agent_versions\n"),
		edit("is of a later version", "version: v1\n", "version: v2\n"),
		edit("names another version", "version: 1.0.0", "version: 1.0.1"),
		edit("names a version that is a path", "version: 1.0.0", "version: ../../x"),
		edit("names another cluster", "proxy: https://", "proxy: https://evil."),
		edit("names another edition", "edition: oss", "edition: enterprise"),
		edit("is of a time to come", "creation_time: \"2", "creation_time: \"3"),
		edit("is of a time long ago", "creation_time: \"20", "creation_time: \"19"),
		edit("is of no time", "creation_time: \"2", "creation_time: \"x"),
		edit("has another checksum", "crc32c: ", "crc32c: 0"),
		edit("has a negative size", "size: ", "size: -"),
		back("backup.yaml is gone", refusal, func(w *world) { w.must(os.Remove(meta(w))) }),
		back("the backup's database is gone", refusal, func(w *world) { w.must(os.Remove(database(w))) }),
		back("the backup's database is cut", refusal, func(w *world) { w.cut(database(w), 5000) }),
		back("the backup's database is another one", refusal, func(w *world) { w.poke(database(w), 5000, []byte("planted")) }),
		back("the backup's database has another name", refusal, func(w *world) { w.hardlink(w.outside("secret"), database(w)) }),
		back("a WAL lies beside the backup's database", refusal, func(w *world) { w.write(database(w)+"-wal", strings.Repeat("x", 4096), 0o600) }),
		back("a journal lies beside the backup's database", refusal, func(w *world) {
			w.write(database(w)+"-journal", "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"+strings.Repeat("x", 1000), 0o600)
		}),
		back("the backup's folder is gone", refusal, func(w *world) { w.must(os.RemoveAll(dir(w))) }),
		back("the backup's folder is a file", "", func(w *world) { w.must(os.RemoveAll(dir(w))); w.write(dir(w), "x", 0o600) }),
		back("the backup's folder belongs to another user", refusal, func(w *world) { w.chown(dir(w), 1234) }),
		back("the backup's folder may be written by everybody", refusal, func(w *world) { w.chmod(dir(w), 0o777) }),
		back("the backup's folder is a link to another user's", refusal, func(w *world) {
			w.must(os.Rename(dir(w), w.outside("backup")))
			w.chown(w.outside("backup"), 1234)
			w.link(w.outside("backup"), dir(w))
		}),
		back("backup.yaml belongs to another user", refusal, func(w *world) { w.chown(meta(w), 1234) }),
		back("backup.yaml may be written by everybody", refusal, func(w *world) { w.chmod(meta(w), 0o666) }),
	}
	for _, k := range wrong {
		cases = append(cases,
			back("backup.yaml "+k.name, refusal, func(w *world) { k.make(w, meta(w)) }),
			back("the backup's database "+k.name, refusal, func(w *world) { k.make(w, database(w)) }))
	}

	// Where the next backup goes.
	into := func(name string, code code, given func(*world)) hostile {
		c := hostile{name: name, code: code, given: given, may: []string{"data/versions/1.0.0/backup"}}
		if code == done {
			c.becomes = "1.1.0"
		} else {
			c.says = "backup"
		}
		return c
	}
	return append(cases,
		into("the backup's folder is a link out of the store", failed, func(w *world) { w.link(w.outside(), dir(w)) }),
		into("the backup's folder is another user's", failed, func(w *world) { w.folder(dir(w)); w.chown(dir(w), 1234) }),
		into("the backup's folder is open to all", failed, func(w *world) { w.folder(dir(w)); w.chmod(dir(w), 0o777) }),
		into("a file is where the backup's folder goes", failed, func(w *world) { w.write(dir(w), "x", 0o600) }),
		into("links lie where the backup goes", done, func(w *world) {
			w.folder(dir(w))
			for _, name := range []string{"sqlite.db", "sqlite.db-wal", "sqlite.db-journal", "backup.yaml"} {
				w.link(w.outside("secret"), filepath.Join(dir(w), name))
			}
		}),
		into("pipes lie where the backup goes", done, func(w *world) {
			w.folder(dir(w))
			for _, name := range []string{"sqlite.db", "sqlite.db-wal", "backup.yaml"} {
				w.must(syscall.Mkfifo(filepath.Join(dir(w), name), 0o600))
			}
		}),
	)
}
