package transaction

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// wentBack is a host that went back to the database that 1.0.0 had, and on which 1.0.0 has written since. The tables of both
// versions are the same. yesterday puts back the records of the version before.
func wentBack(t *testing.T) (m *model, yesterday func()) {
	t.Helper()
	m = newModel(t, "1.1.0", "1.0.0", map[string]behaviour{"1.1.0": one, "1.0.0": one})
	m.left("1.0.0")
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	m.RecordSchema(t.Context(), &c)
	must(t, m.transact(t.Context(), m.request(Downgrade)))
	if m.seen.rows[0] != -1 {
		t.Fatalf("the database that 1.0.0 had is not back: %+v", m.seen)
	}
	for range 3 {
		m.write()
	}
	must(t, new(state.History).Add(state.Ended{Time: noon, To: m.to, Result: state.Succeeded}, m.Host.Paths.History()))
	return m, func() { must(t, c.Save(m.Host.Paths.Config())) }
}

// complete reports whether the backup that 1.0.0 was left with can be restored.
func (m *model) complete() bool {
	_, err := backup.MetaOf(filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup"))
	return err == nil
}

// Somebody puts back the records of yesterday, which name the version before, and the links follow them: the cluster wants 1.0.0
// again, whose database is the one of today.
func TestABackupIsRestoredOnce(t *testing.T) {
	for name, follow := range map[string]func(m *model, yesterday func()){
		"while the agent is stopped": func(m *model, yesterday func()) {
			m.stopUnit()
			yesterday()
			m.repairs()
		},
		"before a boot": func(m *model, yesterday func()) {
			yesterday()
			m.repairs()
			m.reboot()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, yesterday := wentBack(t)
			follow(m, yesterday)
			if err := m.transact(t.Context(), m.request(Downgrade)); !failure.Is[*failure.RefusedError](err) {
				t.Errorf("it ends with %v; want it refused", err)
			}
			if m.main == nil {
				must(t, m.startUnit())
			}
			m.look()
			for n, r := range m.rows {
				if r.by == "1.0.0" && r.keep && !slices.Contains(m.seen.rows, n) {
					t.Errorf("row %d is lost", n)
				}
			}
		})
	}
}

// The commit may be cut off between what it writes down and the end of the backup.
func TestACommitThatIsCutOffEndsTheBackupThatItRestored(t *testing.T) {
	m := downgrade(t, holds)
	meta := filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup", "backup.yaml")
	valid, err := os.ReadFile(meta)
	must(t, err)
	var open *state.Journal
	m.before = func(string) error {
		if j, err := state.LoadJournal(m.Host.Paths.Journal()); err == nil && j != nil {
			open = j
		}
		return nil
	}
	must(t, m.do(Downgrade))
	m.dropHooks()
	open.Phase, open.Reached = proven, "watch"
	must(t, open.Save(m.Host.Paths.Journal()))
	must(t, os.WriteFile(meta, valid, 0o600))
	if err, _ := m.tick(); err != nil {
		t.Fatal(err)
	}
	if m.complete() {
		t.Error("the backup would be restored once more")
	}
	m.endsOn("1.0.0")
}
