package transaction

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/installer/host"
)

// Somebody puts back updates.yaml and the history of yesterday, and links and unit of the version that they name. The folders of
// versions stay, with the backup of a transaction that ended since: nobody restores it.
func TestRecordsOfYesterdayBeginNoTransaction(t *testing.T) {
	for name, tc := range map[string]struct {
		fate fate // of the version that was tried
		by   string
	}{
		"the version holds":   {holds, "2.0.0"},
		"it was undone":       {dies, "1.0.0"},
		"it was undone later": {diesLate, "1.0.0"},
	} {
		for how, goesOn := range map[string]func(m *model){
			"a run":  func(m *model) { m.tick() },
			"a boot": func(m *model) { m.reboot(); m.tick() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				m := newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: tc.fate}})
				c, err := m.Host.Paths.LoadConfig()
				must(t, err)
				err = m.transact(t.Context(), m.request(Update))
				if held := err == nil; held != (tc.fate == holds) {
					t.Fatalf("the update ends with %v", err)
				}
				for range 3 {
					m.write()
				}
				m.stopUnit()
				must(t, c.Save(m.Host.Paths.Config()))
				must(t, os.RemoveAll(m.Host.Paths.History()))
				tree, _, err := m.Host.Store.Lookup(m.from)
				must(t, err)
				links, err := m.Host.PlanLinks(tree)
				must(t, err)
				must(t, m.Host.Place(tree, links))
				m.read()
				m.launch()

				goesOn(m)

				if host.Exists(m.Host.Paths.Journal()) {
					t.Error("a transaction is open")
				}
				m.look()
				for n, r := range m.rows {
					if r.by == tc.by && r.keep && !slices.Contains(m.seen.rows, n) {
						t.Errorf("row %d of %s is lost", n, r.by)
					}
				}
			})
		}
	}
}

// Somebody copied the programs in the place of their links. A transaction has stopped the agent and taken its backup, and is cut
// off; its journal is removed. The copy is the version that was being left, which comes back. A copy of another version's program is
// not: that may have migrated the database.
func TestACopyOfTheProgramThatIsLeftIsItsVersion(t *testing.T) {
	for of, known := range map[string]bool{"1.1.0": true, "1.0.0": false} {
		t.Run(of, func(t *testing.T) {
			m := newModel(t, "1.1.0", "1.0.0", map[string]behaviour{"1.1.0": one, "1.0.0": one})
			link := filepath.Join(m.Host.Paths.LinkDir, host.AgentName)
			must(t, os.Remove(link))
			writeFile(t, link, of)
			must(t, os.Chmod(link, 0o755))
			m.left("1.1.0")
			m.stopUnit()
			m.tick()
			if back := m.main != nil; back != known {
				t.Errorf("the agent is back: %v; want %v", back, known)
			}
			if bad := m.closed(); known && bad != nil {
				t.Error(bad)
			}
		})
	}
}

// Somebody moved the programs away that the agent executes, and its link. The programs are fetched again before the update; an
// undoing has the link lead there.
func TestAnUndoingBringsTheLinkBackWithTheVersion(t *testing.T) {
	m := newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: dies}})
	m.main.dir = filepath.Join(t.TempDir(), "moved")
	must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, host.AgentName)))
	if err := m.transact(t.Context(), m.request(Update)); err == nil {
		t.Fatal("a version that dies holds")
	}
	if bad := m.closed(); bad != nil {
		t.Error(bad)
	}
}
