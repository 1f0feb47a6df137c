package walks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// foreign is what a file of somebody else's holds.
const foreign = "# somebody else's\n"

// thing is what can stand in the place of a link.
type thing struct {
	name  string
	put   func(path string) error
	is    func(path string) bool // it still stands there
	whole bool                   // its content is to be kept
}

var things = []thing{
	{"a file", func(p string) error { return os.WriteFile(p, []byte(foreign), 0o644) }, holdsForeign, true},
	{"a folder", func(p string) error {
		if err := os.Mkdir(p, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(p, "file"), []byte(foreign), 0o644)
	}, func(p string) bool { return holdsForeign(filepath.Join(p, "file")) }, true},
	{"a foreign link", func(p string) error { return os.Symlink("/elsewhere", p) }, func(p string) bool {
		to, err := os.Readlink(p)
		return err == nil && to == "/elsewhere"
	}, false},
}

func holdsForeign(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.HasPrefix(string(text), foreign)
}

// inTheWay puts something where a link or the unit goes.
func inTheWay() (all []action) {
	for _, thing := range things {
		for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
			all = append(all, inTheWayOfLink(thing, name))
		}
		all = append(all, inTheWayOfUnit(thing))
	}
	return all
}

func inTheWayOfLink(thing thing, name string) action {
	return action{
		name: Other(thing.name + " takes the place of the link " + name),
		do: func(w *walk) (func() error, error) {
			path := filepath.Join(w.links(), name)
			if _, err := os.Readlink(path); err != nil {
				return nil, nil
			}
			return w.replace(path, thing)
		},
		back: func(w *walk, was, end *Model) {
			if name == "teleport" {
				w.foundAnother(was, end)
			}
			if _, err := os.Lstat(filepath.Join(w.links(), name)); err != nil && !slices.Contains(end.Missing, name) {
				end.Missing = append(slices.Clone(end.Missing), name)
			}
		},
	}
}

// foundAnother has a database that another program may have changed be kept apart, and not as that of the version that
// is left: its tables are not the noted ones, and this program names no version.
func (w *walk) foundAnother(was, end *Model) {
	tree := end.tree(was.Active)
	if was.Database == nil || was.Noted == was.Database.Schema || was.Active == end.Active || tree == nil {
		return
	}
	if _, err := os.Stat(filepath.Join(w.data(), "database-backups", "found")); err == nil {
		tree.Backup = nil
		if before := was.tree(was.Active); before != nil {
			tree.Backup = before.Backup
		}
		end.Trees[was.Active] = *tree
	}
}

func inTheWayOfUnit(thing thing) action {
	return action{
		name: Other(thing.name + " takes the place of the unit"),
		do: func(w *walk) (func() error, error) {
			if w.may[0].Active == (Release{}) {
				return nil, nil
			}
			undo, err := w.replace(w.unit(), thing)
			return func() error {
				if err := undo(); err != nil {
					return err
				}
				phase, err := w.phase()
				if _, gone := os.Lstat(w.unit()); gone == nil || err != nil || phase == "uninstalling" {
					return err
				}
				if _, gone := os.Lstat(w.config()); gone != nil {
					return nil
				}
				return os.WriteFile(w.unit(), []byte(edited), 0o644) // as somebody remembers it
			}, err
		},
		back: func(w *walk, _, end *Model) {
			_, err := os.Lstat(w.unit())
			end.UnitEdited = end.Active != Release{}
			if err != nil && end.Active == (Release{}) {
				end.PlainUnit = ""
			}
		},
	}
}

// replace puts a thing in the place of a file. When that is undone, it must be there
// still, or kept.
func (w *walk) replace(path string, t thing) (undo func() error, err error) {
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return func() error {
		if t.is(path) {
			return os.RemoveAll(path)
		}
		if !t.whole {
			kept, err := filepath.Glob(path + ".aside-*")
			for _, link := range kept {
				err = errors.Join(err, os.Remove(link))
			}
			return err
		}
		kept, err := w.kept()
		if err == nil && kept == "" {
			err = fmt.Errorf("%s in the place of %s is lost", t.name, filepath.Base(path))
		}
		return err
	}, t.put(path)
}

// kept finds what was somebody else's and is kept, and gives it back to its owner.
func (w *walk) kept() (found string, err error) {
	err = filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && holdsForeign(path) {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		return found, err
	}
	// A copy that nothing would put back is its owner's to fetch.
	before, _ := os.ReadFile(filepath.Join(w.versions(), "original", "before.json"))
	journal, _ := os.ReadFile(w.journal())
	if strings.Contains(string(before)+string(journal), strconv.Quote(filepath.Base(found))) {
		return found, nil
	}
	if whole := filepath.Dir(found); strings.Contains(filepath.Base(whole), ".aside-") {
		return found, os.RemoveAll(whole) // a folder
	}
	return found, os.Remove(found)
}
