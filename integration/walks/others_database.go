package walks

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/ncruces/go-sqlite3"
)

// withTheDatabase opens, locks and takes away files of the database.
func withTheDatabase() (all []action) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		for _, how := range []struct {
			name    string
			flags   int
			program []string
		}{
			{"is open for reading", os.O_RDONLY, []string{"sleep", "infinity"}},
			{"is open for writing", os.O_RDWR, []string{"sleep", "infinity"}},
			{"is locked", os.O_RDWR, []string{"sh", "-c", "flock -x 0 && exec sleep infinity"}},
		} {
			all = append(all, action{name: Other("sqlite.db" + suffix + " " + how.name), held: true, do: func(w *walk) (func() error, error) {
				return holding(w.database()+suffix, how.flags, how.program)
			}})
		}
		all = append(all, takenAway(suffix, "removed"), takenAway(suffix, "renamed"))
	}
	for _, c := range []struct{ name, sql string }{
		{"a connection to the database idles", "SELECT count(*) FROM sqlite_schema"},
		{"a read transaction on the database is open", "BEGIN; SELECT count(*) FROM sqlite_schema"},
		{"a write transaction on the database is open", "BEGIN IMMEDIATE"},
	} {
		all = append(all, action{name: Other(c.name), held: true, do: func(w *walk) (func() error, error) {
			if _, err := os.Stat(w.database()); err != nil {
				return nil, nil
			}
			db, err := sqlite3.Open("file:" + w.database())
			if err != nil {
				return nil, err
			}
			// What a version that died left is for the next one to take up.
			if _, err := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
				return nil, errors.Join(err, db.Close())
			}
			return db.Close, db.Exec(c.sql)
		}})
	}
	return all
}

// holding has a program hold a file.
func holding(path string, flags int, program []string) (undo func() error, err error) {
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	holder := exec.Command(program[0], program[1:]...)
	holder.Stdin = f
	return func() error {
		err := holder.Process.Kill()
		_ = holder.Wait()
		return err
	}, holder.Start()
}

// takenAway takes a file of the database away for good, or for a while. Who takes a file from
// under SQLite takes rows with it: the models are told which.
func takenAway(suffix, how string) action {
	a := action{name: Other("sqlite.db" + suffix + " is " + how), closed: suffix == ""}
	a.do = func(w *walk) (func() error, error) {
		path, away := w.database()+suffix, filepath.Join(w.data(), "away")
		if err := os.Rename(path, away); err != nil {
			return nil, nil
		}
		left, err := w.read(w.database())
		if err != nil {
			return nil, os.Rename(away, path) // no database without it: not this one
		}
		w.during = left
		return func() error {
			info, err := os.Lstat(away)
			if err != nil {
				return err
			}
			now, gone := os.Lstat(w.database())
			_, free := os.Lstat(path)
			// What the database outgrew would be another harm.
			fits := free != nil && (suffix == "" || gone == nil && !now.ModTime().After(info.ModTime()))
			if how == "renamed" && fits {
				err = os.Rename(away, path)
			} else {
				err = os.Remove(away)
			}
			if err != nil {
				return err
			}
			if w.left, err = w.read(w.database()); err == nil {
				return nil
			}
			w.left = nil
			for _, s := range []string{"", "-wal", "-shm", "-journal"} {
				_ = os.Remove(w.database() + s)
			}
			return nil
		}, nil
	}
	a.seen = func(w *walk, m *Model) { m.Database = w.during }
	a.back = func(w *walk, was, end *Model) { end.leaves(w.left, was) }
	return a
}

// leaves has a database be what somebody left of it.
func (m *Model) leaves(left *Database, was *Model) {
	if left != nil {
		for _, row := range left.Rows {
			if (was.Database == nil || !slices.Contains(was.Database.Rows, row)) && (m.Database == nil || !slices.Contains(m.Database.Rows, row)) {
				return // nobody wrote it
			}
		}
	}
	m.Database = left
	m.insists()
}

// insists notes that somebody brought a database that the version cannot open.
func (m *Model) insists() {
	if m.Active != (Release{}) {
		m.Forced = m.Database != nil && m.Database.Schema > m.Trees[m.Active].Build.Schema()
	}
}

// withTheFolder exchanges the folder of the database.
func withTheFolder() (all []action) {
	for _, t := range []struct {
		name string
		put  func(w *walk, path string) error
	}{
		{"a link to another folder", func(w *walk, path string) error {
			if err := os.MkdirAll(w.elsewhere("other"), 0o755); err != nil {
				return err
			}
			return os.Symlink(w.elsewhere("other"), path)
		}},
		{"an empty folder", func(_ *walk, path string) error { return os.Mkdir(path, 0o755) }},
		{"a file", func(_ *walk, path string) error { return os.WriteFile(path, nil, 0o644) }},
		{"nothing", func(*walk, string) error { return nil }},
	} {
		all = append(all, action{
			name: Other(t.name + " takes the place of proc"), closed: true,
			do: func(w *walk) (func() error, error) {
				proc := filepath.Dir(w.database())
				away := filepath.Join(w.data(), "away")
				if err := os.Rename(proc, away); err != nil {
					return nil, nil
				}
				return func() error {
					if err := os.RemoveAll(proc); err != nil {
						return err
					}
					return os.Rename(away, proc)
				}, t.put(w, proc)
			},
			seen: func(_ *walk, m *Model) { m.Database = nil },
			back: func(_ *walk, was, end *Model) {
				end.Database = was.Database
				end.insists()
			},
		})
	}
	return all
}
