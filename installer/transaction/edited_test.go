package transaction

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// edited is a host on which somebody wrote another version into active_version of updates.yaml. recorded says which record of
// the version before that leaves.
func edited(t *testing.T, from, to string, f fate, recorded func(*state.Config)) (*model, state.Config) {
	t.Helper()
	schemas := map[string]int{"1.0.0": 1, "1.1.0": 2}
	m := newModel(t, from, to, map[string]behaviour{from: {schema: schemas[from], fate: holds}, to: {schema: schemas[to], fate: f}})
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	m.RecordSchema(t.Context(), &c)
	if c.Status.CommittedVersion != from || c.Status.ActiveSchema == "" {
		t.Fatalf("the version that runs is not recorded: %+v", c.Status)
	}
	if recorded != nil {
		recorded(&c)
	}
	c.Spec.ActiveVersion = to
	must(t, c.Save(m.Host.Paths.Config()))
	return m, c
}

// A repair that followed an edit would be a change of version without a backup, a watch or a way back.
func TestARepairIsNoChangeToAVersionThatSomebodyWroteIntoUpdatesYAML(t *testing.T) {
	for name, recorded := range map[string]func(*state.Config){
		"by this updater": nil,
		"by an older updater, after an update": func(c *state.Config) {
			c.Status.CommittedVersion = ""
			c.Status.LastUpdate = &state.LastUpdate{Target: c.Spec.ActiveVersion, Result: state.Succeeded, Time: noon}
		},
		"not at all": func(c *state.Config) { c.Status = state.Status{ActiveEdition: version.OSS} },
	} {
		for _, to := range []string{"1.1.0", "1.0.0"} {
			for _, f := range []fate{holds, dies} {
				for _, down := range []bool{false, true} {
					t.Run(fmt.Sprintf("recorded %s, to %s, which %s, down %v", name, to, f, down), func(t *testing.T) {
						from := map[string]string{"1.1.0": "1.0.0", "1.0.0": "1.1.0"}[to]
						m, c := edited(t, from, to, f, recorded)
						if down {
							m.stopUnit()
						}
						tree, ok, err := m.Active(c)
						if err != nil || !ok {
							t.Fatal(err)
						}
						err = m.CheckPair(t.Context(), c, tree, m)
						if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "`teleport-update pin "+from+"`") {
							t.Fatalf("CheckPair: %v; want a refusal with the way out", err)
						}
						sight, err := m.Sight(t.Context())
						must(t, err)
						if o, err := m.databaseOwner(t.Context(), sight, c); err != nil || o != (owner{another: true, version: from}) {
							t.Errorf("the database is of %+v, %v", o, err)
						}
						m.repairs()
						// What the advice does.
						m.from, m.to = m.to, m.from
						m.calls = nil
						if err := m.do(Pin); err != nil {
							t.Fatalf("the advice ends with %v", err)
						}
						if down {
							must(t, m.restartUnit())
						}
						if err := m.closed(); err != nil {
							t.Error(err)
						}
						c, err = m.Host.Paths.LoadConfig()
						must(t, err)
						if c.Status.CommittedVersion != from {
							t.Errorf("committed: %+v", c.Status)
						}
						// From there a change to the version is one with a backup.
						m.from, m.to = m.to, m.from
						kind := map[bool]Kind{true: Update, false: Downgrade}[to == "1.1.0"]
						if kind == Downgrade {
							return // there is no database of that version
						}
						if err := m.do(kind); (err == nil) != (f == holds) {
							t.Errorf("the change ends with %v", err)
						}
						if err := m.closed(); err != nil {
							t.Error(err)
						}
						_, err = backup.Created(filepath.Join(m.Host.Paths.Versions(), from, "backup"))
						if (f == holds) && err != nil {
							t.Errorf("there is no backup: %v", err)
						}
					})
				}
			}
		}
	}
}

// Links of yesterday beside the updates.yaml and the database of today are put right.
func TestARepairLeadsLinksOfYesterdayToTheVersionThatATransactionMadeActive(t *testing.T) {
	for name, recorded := range map[string]func(*state.Config){
		"by this updater":     func(*state.Config) {},
		"by an older updater": func(c *state.Config) { c.Status.CommittedVersion = "" },
		"by an older updater, before a change that failed": func(c *state.Config) {
			c.Status.CommittedVersion = ""
			c.Status.LastUpdate = &state.LastUpdate{Target: "1.2.0", Result: state.RolledBack, Time: noon}
		},
	} {
		m := upgrade(t, twoHolds)
		must(t, m.do(Update))
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		recorded(&c)
		must(t, c.Save(m.Host.Paths.Config()))
		old, ok, err := m.Host.Store.Lookup(m.from)
		if err != nil || !ok {
			t.Fatal(err)
		}
		must(t, m.Host.Repair(old))
		m.readUnits()
		_ = m.restartUnit() // dies on the database
		m.repairs()
		m.readUnits()
		must(t, m.restartUnit())
		if err := m.closed(); err != nil {
			t.Errorf("recorded %s: %v", name, err)
		}
	}
}

// An agent that is seen to run as a version that somebody wrote into active_version has that database.
func TestAnEditedVersionThatRunsIsRecorded(t *testing.T) {
	m, c := edited(t, "1.0.0", "1.1.0", holds, nil)
	noted := c.Status.ActiveSchema
	tree, _, err := m.Active(c)
	must(t, err)
	must(t, m.Host.Repair(tree)) // as an older updater did
	m.RecordSchema(t.Context(), &c)
	if c.Committed() {
		t.Error("the version of before runs, and the other one is recorded")
	}
	m.readUnits()
	must(t, m.restartUnit())
	m.RecordSchema(t.Context(), &c)
	if !c.Committed() || c.Status.ActiveSchema == noted {
		t.Errorf("the version that runs is not recorded: %+v", c.Status)
	}
}
