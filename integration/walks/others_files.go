package walks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// harm is what is done to a file.
type harm struct {
	name string
	do   func(path string) error
	is   func(path string) bool // it is still as it was left
	// same: the content is.
	same bool
}

const broken = "{[ broken\n"

// stranger is a user who is not root.
const stranger = 1

var harms = []harm{
	{name: "is broken", do: func(p string) error { return os.WriteFile(p, []byte(broken), 0o600) }, is: func(p string) bool { return textOf(p) == broken }},
	{name: "is emptied", do: func(p string) error { return os.Truncate(p, 0) }, is: func(p string) bool {
		info, err := os.Lstat(p)
		return err == nil && info.Size() == 0
	}},
	{name: "is removed", do: os.Remove, is: func(p string) bool { _, err := os.Lstat(p); return errors.Is(err, fs.ErrNotExist) }},
	{name: "may be written by everybody", same: true, do: func(p string) error { return os.Chmod(p, 0o666) }, is: func(p string) bool {
		info, err := os.Lstat(p)
		return err == nil && info.Mode().Perm() == 0o666
	}},
	{name: "belongs to another user", same: true, do: func(p string) error { return os.Chown(p, stranger, stranger) }, is: func(p string) bool {
		return owner(p) == stranger
	}},
}

func textOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// spoilt does harm to a file. What is no longer as it was left then is another's by now,
// and stays; missing is whether one that is gone is put back.
func spoilt(path string, h harm, missing func() bool) (undo func() error, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return func() error {
		switch {
		case !h.is(path):
			return nil
		case h.same:
			return errors.Join(os.Chown(path, 0, 0), os.Chmod(path, info.Mode().Perm()))
		}
		if _, err := os.Lstat(filepath.Dir(path)); err != nil || h.name == "is removed" && !missing() {
			return nil
		}
		return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, info.Mode().Perm()))
	}, h.do(path)
}

func always() bool { return true }

// reads are the commands that write no configuration where they find none.
func reads(c Command) bool {
	return slices.Contains([]string{"update", "rollback", "recover", "verify"}, c.Name)
}

// withFiles breaks, empties, removes and gives away the files that the updater reads.
func withFiles() (all []action) {
	for _, h := range harms {
		config := action{name: Other("updates.yaml " + h.name), do: func(w *walk) (func() error, error) { return w.spoilConfig(h) }}
		journal := action{name: Other("the journal " + h.name), open: true, do: func(w *walk) (func() error, error) {
			return spoilt(w.journal(), h, always)
		}}
		if h.name == "is emptied" || h.name == "is removed" {
			// Another command takes a host without it for one that is new.
			config.with = reads
		}
		if !h.same {
			// An old journal that comes back after another transaction would undo that.
			journal.with = func(c Command) bool { return c.Name == "recover" || c.Name == "verify" }
		}
		all = append(all, config, journal, action{
			name: Other("teleport.yaml " + h.name),
			do:   func(w *walk) (func() error, error) { return spoilt(w.agentConfig(), h, always) },
		})
	}
	return all
}

// spoilConfig does harm to updates.yaml. One that cannot be read must still be what it
// was made when that is undone.
func (w *walk) spoilConfig(h harm) (undo func() error, err error) {
	wasOpen, err := w.phase()
	if err != nil {
		return nil, err
	}
	putBack, err := spoilt(w.config(), h, always)
	if putBack == nil || err != nil {
		return nil, err
	}
	return func() error {
		if now := textOf(w.config()); h.name == "is broken" && now != broken && wasOpen != "uninstalling" {
			return fmt.Errorf("updates.yaml, which nobody can read, was written: it holds %q", now)
		}
		if _, err := os.Lstat(w.config()); err != nil && wasOpen == "uninstalling" {
			return nil // it went with the rest
		}
		return putBack()
	}, nil
}

// withMarkers does harm to what says that a version is whole.
func withMarkers() (all []action) {
	for _, which := range []string{"active", "previous"} {
		for _, file := range []string{"sha256", "manifest", "edition", "backup/backup.yaml"} {
			if which == "active" && file == "backup/backup.yaml" {
				continue // it is taken anew whenever the version is left
			}
			for _, h := range harms {
				all = append(all, action{
					hides: which == "active" && !h.same,
					name:  Other(fmt.Sprintf("%s of the %s version %s", filepath.Base(file), which, h.name)),
					do: func(w *walk) (func() error, error) {
						r := w.may[0].release(which)
						if t := w.may[0].tree(r); t == nil || t.Damage != Whole || w.folder(r) == "" {
							return nil, nil
						}
						w.at = w.folder(r)
						path := filepath.Join(w.at, file)
						digest := textOf(filepath.Join(w.at, "sha256"))
						return spoilt(path, h, func() bool {
							// The folder is another's if the version was fetched again.
							now := textOf(filepath.Join(w.at, "sha256"))
							return now == digest || file == "sha256"
						})
					},
					seen: func(_ *walk, m *Model) {
						r := m.release(which)
						t := *m.tree(r)
						if file == "backup/backup.yaml" {
							t.Backup = nil
						} else {
							t.Damage = Unmarked
						}
						m.Trees[r] = t
					},
					back: func(w *walk, was, end *Model) { w.bringBack(was.release(which), was, end) },
				})
			}
		}
	}
	return all
}

// release is the active or the previous one.
func (m *Model) release(which string) Release {
	if which == "active" {
		return m.Active
	}
	return m.Previous
}

// bringBack has a version be there again that was, if it is.
func (w *walk) bringBack(r Release, was, end *Model) {
	before := was.tree(r)
	if w.folder(r) == "" || before == nil {
		return
	}
	now := end.tree(r)
	if now == nil {
		end.Trees[r] = *before
		return
	}
	if now.Damage = before.Damage; now.Backup == nil {
		now.Backup = before.Backup
	}
	end.Trees[r] = *now
}

// withTrees takes versions away.
func withTrees() (all []action) {
	for _, which := range []string{"active", "previous"} {
		gone := func(_ *walk, m *Model) { delete(m.Trees, m.release(which)) }
		back := func(w *walk, was, end *Model) { w.bringBack(was.release(which), was, end) }
		all = append(all, action{
			name: Other("the " + which + " version is removed"), hides: which == "active", seen: gone, back: back,
			do: func(w *walk) (func() error, error) { return w.moveVersions(which) },
		}, action{
			name: Other("the " + which + " version cannot be executed"), back: back,
			seen: func(_ *walk, m *Model) {
				r := m.release(which)
				t := *m.tree(r)
				t.Damage = Emptied
				m.Trees[r] = t
			},
			do: func(w *walk) (func() error, error) {
				program := filepath.Join(w.folder(w.may[0].release(which)), "bin", "teleport")
				if _, err := os.Lstat(program); err != nil || w.may[0].tree(w.may[0].release(which)) == nil {
					return nil, nil
				}
				return func() error {
					if err := os.Chmod(program, 0o755); !errors.Is(err, fs.ErrNotExist) {
						return err
					}
					return nil
				}, os.Chmod(program, 0)
			},
		})
	}
	return append(all, action{
		name: "both versions are removed", hides: true,
		do: func(w *walk) (func() error, error) { return w.moveVersions("active", "previous") },
		seen: func(_ *walk, m *Model) {
			delete(m.Trees, m.Active)
			delete(m.Trees, m.Previous)
		},
		back: func(w *walk, was, end *Model) {
			w.bringBack(was.Active, was, end)
			w.bringBack(was.Previous, was, end)
		},
	})
}

// moveVersions takes versions away. They come back where nobody has put another; the active
// one without the backup of an earlier time, which nobody has a use for who brings back
// its programs.
func (w *walk) moveVersions(which ...string) (undo func() error, err error) {
	moved, active, of := map[string]string{}, w.folder(w.may[0].Active), map[string]Release{}
	for _, one := range which {
		if dir := w.folder(w.may[0].release(one)); dir != "" {
			moved[dir], of[dir] = w.elsewhere(filepath.Base(dir)), w.may[0].release(one)
		}
	}
	if len(moved) < len(which) {
		return nil, nil
	}
	for dir, away := range moved {
		if err := os.CopyFS(away, os.DirFS(dir)); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return func() error {
		var all error
		for dir, away := range moved {
			_, there := os.Lstat(dir)
			again := w.folder(of[dir]) // under another name
			if _, enabled := os.Lstat(w.config()); there != nil && enabled == nil && again == "" {
				if dir == active {
					all = errors.Join(all, os.RemoveAll(filepath.Join(away, "backup")))
				}
				all = errors.Join(all, os.CopyFS(dir, os.DirFS(away)))
			}
			all = errors.Join(all, os.RemoveAll(away))
		}
		return all
	}, nil
}
