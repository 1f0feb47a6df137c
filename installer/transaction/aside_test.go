package transaction

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/immutable"
)

// things that somebody puts in the way, each with the same content.
func things() map[string]func(path string) error {
	const content = "somebody's"
	return map[string]func(path string) error{
		"a file": func(p string) error { return os.WriteFile(p, []byte(content), 0o644) },
		"a folder": func(p string) error {
			if err := os.Mkdir(p, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(p, "file"), []byte(content), 0o644)
		},
		"a link": func(p string) error { return os.Symlink(content, p) },
	}
}

// contentOf is what things left at a path, wherever in it.
func contentOf(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return target
	}
	if text, err := os.ReadFile(filepath.Join(path, "file")); err == nil {
		return string(text)
	}
	text, _ := os.ReadFile(path)
	return string(text)
}

// What somebody puts in the place of a link or of the unit in mid-watch keeps neither the
// way back nor the way forward from being gone to its end, and is not lost: it is in its
// place, or status names where it is kept.
func TestWhatSomebodyPutsInTheWayIsKeptAside(t *testing.T) {
	some := sampled{every: 13}
	for where, path := range map[string]func(m *model) string{
		"the agent's link":                 func(m *model) string { return m.Host.Paths.LinkDir + "/teleport" },
		"another link":                     func(m *model) string { return m.Host.Paths.LinkDir + "/tsh" },
		"a link that only the new one has": func(m *model) string { return m.Host.Paths.LinkDir + "/only-1.1.0" },
		"a link that only the old one has": func(m *model) string { return m.Host.Paths.LinkDir + "/only-1.0.0" },
		"the unit":                         func(m *model) string { return m.Host.Paths.Unit() },
	} {
		for thing, put := range things() {
			for name, tc := range map[string]struct {
				new  behaviour
				ends string
			}{
				"back":                         {two(neverReady), "1.0.0"},
				"back, and its agent is down":  {two(diesLate), "1.0.0"},
				"back, on the database it had": {behaviour{schema: 1, fate: diesLate}, "1.0.0"},
				"forward":                      {twoHolds, "1.1.0"},
			} {
				for _, cut := range []bool{false, true} {
					if some.skips() {
						continue
					}
					t.Run(thing+" in the place of "+where+", and "+name, func(t *testing.T) {
						t.Parallel()
						m := upgrade(t, tc.new)
						at := path(m)
						m.at("watch", func() error {
							m.before = nil
							must(t, os.RemoveAll(at))
							must(t, put(at))
							if cut {
								panic(killed{})
							}
							return nil
						})
						err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
						if !cut && (err == nil) != (tc.ends == "1.1.0") {
							t.Errorf("it ends with %v", err)
						}
						if cut {
							if err, _ := m.tick(); err != nil {
								t.Errorf("the tick ends with %v", err)
							}
						}
						agent := m.main
						for range 2 {
							if err, _ := m.tick(); err != nil || m.main != agent {
								t.Errorf("a later tick ends with %v, the agent is the same: %v", err, m.main == agent)
							}
						}
						m.endsOn(tc.ends)
						if contentOf(at) == "somebody's" || tc.ends == "1.1.0" && thing != "a folder" && at != m.Host.Paths.Unit() {
							return // kept for uninstall, or replaced and logged, as in any repair of links
						}
						aside, err := filepath.Glob(at + ".aside-*")
						if err != nil || len(aside) != 1 || contentOf(aside[0]) != "somebody's" {
							t.Fatalf("it is lost: aside is %q, %v", aside, err)
						}
						c, err := state.LoadConfig(m.Host.Paths.Config())
						must(t, err)
						if !strings.Contains(c.Status.LastUpdate.Error, aside[0]) {
							t.Errorf("status says %q, and not where it is", c.Status.LastUpdate.Error)
						}
					})
				}
			}
		}
	}
}

// As long as what is in the way stays, a run only looks.
func TestARunThatCannotUndoStopsNoAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		block   func(t *testing.T, m *model)
		unblock func(t *testing.T, m *model)
	}{
		"the backup is damaged": {
			func(t *testing.T, m *model) {
				f, err := os.OpenFile(m.Host.Store.Dir+"/1.0.0/backup/sqlite.db", os.O_RDWR, 0)
				must(t, err)
				defer f.Close()
				was := make([]byte, 7)
				_, err = f.ReadAt(was, 4096)
				must(t, err)
				must(t, os.WriteFile(m.Host.Store.Dir+"/was", was, 0o600))
				_, err = f.WriteAt([]byte("garbage"), 4096)
				must(t, err)
			},
			func(t *testing.T, m *model) {
				f, err := os.OpenFile(m.Host.Store.Dir+"/1.0.0/backup/sqlite.db", os.O_RDWR, 0)
				must(t, err)
				defer f.Close()
				was, err := os.ReadFile(m.Host.Store.Dir + "/was")
				must(t, err)
				_, err = f.WriteAt(was, 4096)
				must(t, err)
			},
		},
		"the backup is away": {
			func(t *testing.T, m *model) {
				must(t, os.Rename(m.Host.Store.Dir+"/1.0.0/backup", m.Host.Store.Dir+"/away"))
				must(t, os.RemoveAll(m.Host.Paths.Rollback()))
			},
			func(t *testing.T, m *model) {
				must(t, os.Rename(m.Host.Store.Dir+"/away", m.Host.Store.Dir+"/1.0.0/backup"))
			},
		},
		"the folder of links is read-only": {readOnly((*model).linkDir), writable((*model).linkDir)},
		"the folder of units is read-only": {readOnly((*model).unitDir), writable((*model).unitDir)},
	} {
		for _, f := range []fate{neverReady, diesLate} {
			t.Run(name+", the new version "+string(f), func(t *testing.T) {
				m := upgrade(t, two(f))
				m.at("watch", func() error {
					m.before = nil
					tc.block(t, m)
					return nil
				})
				if err := m.do(Update); err == nil {
					t.Fatal("it ends well")
				}
				for n := range 3 {
					if err := m.sound(); err != nil {
						t.Fatalf("after %d ticks: %v", n, err)
					}
					m.calls = nil
					agent := m.main
					err, _ := m.tick()
					m.needsPerson(err, "cannot go back")
					if slices.Contains(m.calls, "stop") || slices.Contains(m.calls, "restart") || m.main != agent {
						t.Errorf("a run that could only look made the calls %q", m.calls)
					}
					if d, err := Describe(m.Host.Paths.Journal()); err != nil || !strings.Contains(d.CutOff, "cannot go back") {
						t.Errorf("status says %+v, %v", d, err)
					}
				}
				tc.unblock(t, m)
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				m.endsOn("1.0.0")
			})
		}
	}
}

func (m *model) linkDir() string { return m.Host.Paths.LinkDir }
func (m *model) unitDir() string { return m.Host.Paths.UnitDir }

// readOnly has a folder be as one on a file system that is mounted read-only.
func readOnly(dir func(*model) string) func(*testing.T, *model) {
	return func(t *testing.T, m *model) {
		if os.Geteuid() != 0 {
			must(t, os.Chmod(dir(m), 0o555))
		} else if err := immutable.Set(dir(m), true); err != nil {
			t.Skipf("no folder can be made immutable here: %v", err)
		}
		t.Cleanup(func() { writable(dir)(t, m) })
	}
}

func writable(dir func(*model) string) func(*testing.T, *model) {
	return func(t *testing.T, m *model) {
		if os.Geteuid() != 0 {
			must(t, os.Chmod(dir(m), 0o755))
			return
		}
		if err := immutable.Set(dir(m), false); !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
	}
}

// A run that is killed right after it has moved a file aside must not be the only one that
// knew of it: the name is in the journal before anything is moved.
func TestWhatIsMovedAsideIsNamedBefore(t *testing.T) {
	m := testMachine(t)
	writeFile(t, m.Host.Paths.Config(), wholeConfig)
	tr := m.open(t, rollingBack, func(*state.Journal) {})
	at := filepath.Join(m.Host.Paths.LinkDir, "teleport")
	writeFile(t, at, "somebody's")
	to, err := tr.nameAside(at)
	must(t, err)
	j, err := state.LoadJournal(m.Host.Paths.Journal())
	must(t, err)
	if _, err := os.Lstat(at); err != nil || !slices.Contains(j.Aside, to) {
		t.Errorf("%s is to be %s, and the journal names %q (%v)", at, to, j.Aside, err)
	}
}

// A unit that somebody wrote over the one of the active version is kept, whichever way the
// transaction goes.
func TestAUnitThatSomebodyWroteIsKeptByATransaction(t *testing.T) {
	for f, ends := range map[fate]string{holds: "1.1.0", diesLate: "1.0.0"} {
		m := upgrade(t, two(f))
		const theirs = "[Service]\n# somebody's\n"
		writeFile(t, m.Host.Paths.Unit(), theirs)
		m.read()
		if err := m.do(Update); (err == nil) != (f == holds) {
			t.Errorf("it ends with %v", err)
		}
		if v, _ := m.program(); v != ends {
			t.Errorf("the host is on %s; want %s", v, ends)
		}
		kept, err := filepath.Glob(m.Host.Paths.Unit() + ".aside-*")
		must(t, err)
		if len(kept) != 1 {
			t.Fatalf("%s: kept are %q", ends, kept)
		}
		if text, err := os.ReadFile(kept[0]); err != nil || string(text) != theirs {
			t.Errorf("%s holds %q, %v", kept[0], text, err)
		}
	}
}
