package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// A boot comes before the agent's data are mounted. What is beneath the mount is empty,
// or holds a database of the time before there was one.
func TestARecoveryAtBootLooksWhetherTheDataAreThere(t *testing.T) {
	some := sampled{every: 11}
	proc := func(m *model) string { return filepath.Dir(m.db) }
	for name, beneath := range map[string]func(t *testing.T, m *model){
		"nothing is there":   func(*testing.T, *model) {},
		"an empty folder is": func(t *testing.T, m *model) { must(t, os.Mkdir(proc(m), 0o700)) },
		"a database of before is": func(t *testing.T, m *model) {
			must(t, os.Mkdir(proc(m), 0o700))
			c, err := sqlite3.Open(m.db)
			must(t, err)
			must(t, c.Exec("CREATE TABLE rows (n INTEGER); PRAGMA user_version=1"))
			must(t, c.Close())
			m.edit(func(j *state.Journal) { j.Database.Folder.Mount = "/another" })
		},
	} {
		for _, s := range scenes() {
			if strings.HasPrefix(s.name, "begun") || strings.Contains(s.name, "downgrade") {
				continue
			}
			if some.skips() {
				continue
			}
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				m := s.make(t)
				m.edit(func(j *state.Journal) { j.Database.Folder.FileSystem = "0" })
				away := proc(m) + ".not-mounted"
				j, err := load(m.Host.Paths.Journal())
				must(t, err)
				mount := j.Database.Folder.Mount
				m.ends()
				must(t, os.Rename(proc(m), away))
				beneath(t, m)
				before := m.pair() + fmt0(schemaOf(t, m.db))
				m.boots++
				if err := m.Recover(t.Context(), true); err != nil {
					t.Errorf("the recovery ends with %v", err)
				}
				after := m.pair() + fmt0(schemaOf(t, m.db))
				if j.Database.Restored || j.Phase == restored || j.Phase == proven {
					before = after // the database has its place already
				}
				if before != after {
					t.Errorf("%s became %s", before, after)
				}
				must(t, os.RemoveAll(proc(m)))
				must(t, os.Rename(away, proc(m)))
				if host.Exists(m.Host.Paths.Journal()) {
					m.edit(func(j *state.Journal) { j.Database.Folder.Mount = mount })
				}
				m.read()
				m.launch()
				m.settles(outcome{}, errors.New("at boot"), false)
			})
		}
	}
}

// Somebody had put the agent's link back by the time of the boot, and a file in the place of another
// link. The new version, whose database is not mounted yet, keeps its links and its unit.
func TestARecoveryAtBootKeepsThePairWhateverIsInAPlaceOfTheLinks(t *testing.T) {
	m := killedInMidWatch(t, holds)
	j, err := load(m.Host.Paths.Journal())
	must(t, err)
	proc, tsh := filepath.Dir(m.db), filepath.Join(m.Host.Paths.LinkDir, "tsh")
	for _, c := range j.Links {
		switch filepath.Base(c.Path) {
		case "teleport":
			must(t, os.Remove(c.Path))
			must(t, os.Symlink(c.Before.Link, c.Path))
		case "tsh":
			must(t, os.Remove(tsh))
			writeFile(t, tsh, "another's")
		}
	}
	m.ends()
	must(t, os.Rename(proc, proc+".not-mounted"))
	m.boots++
	if err := m.Recover(t.Context(), true); err != nil {
		t.Errorf("the recovery ends with %v", err)
	}
	if v, _ := m.program(); v != "1.1.0" || !strings.Contains(m.unitFile(), "1.1.0") {
		t.Errorf("%s is linked, with the unit %q", v, m.unitFile())
	}
	must(t, os.Rename(proc+".not-mounted", proc))
	m.read()
	m.launch()
	m.settles(outcome{}, errors.New("at boot"), false)
	if kept, _ := filepath.Glob(tsh + ".aside-*"); len(kept) != 1 {
		t.Errorf("the file is kept as %v", kept)
	}
}

func fmt0(n int) string { return " " + string(rune('0'+n)) }

// pair is what a version and its database are.
func (m *model) pair() string {
	v, _ := m.program()
	return v + m.unitFile()
}
