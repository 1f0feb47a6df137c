package transaction

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// byHand is a host on which somebody put a newer version in the place of the links, and restarted
// the agent, which migrated the database.
func byHand(t *testing.T, schema int) (*model, versions.Tree) {
	t.Helper()
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds, "1.5.0": {schema: schema, fate: holds}})
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	if m.RecordSchema(t.Context(), &c); c.Status.ActiveSchema == "" {
		t.Fatal("the schema was not noted")
	}
	link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
	must(t, os.Remove(link))
	writeFile(t, link, "1.5.0")
	must(t, m.restartUnit())
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		t.Fatal(err)
	}
	return m, tree
}

func TestARepairLeavesTheLinkOfAnAgentThatMigratedTheDatabase(t *testing.T) {
	for schema, refused := range map[int]bool{1: false, 2: true} {
		m, tree := byHand(t, schema)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		if err := m.CheckPair(t.Context(), c, tree, m); failure.Is[*failure.RefusedError](err) != refused {
			t.Errorf("schema %d: %v; want a refusal: %v", schema, err, refused)
		} else if refused && !strings.Contains(err.Error(), "teleport-update pin") {
			t.Errorf("the way out is not named: %v", err)
		}
		// An agent of ours that runs on is the pair, whatever stands in the link's place.
		must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "teleport")))
		must(t, m.Host.Repair(tree))
		if err := m.CheckPair(t.Context(), c, tree, m); err != nil {
			t.Errorf("schema %d, with our link: %v", schema, err)
		}
	}
}

// Nor is the unit put back over one that starts another program, which has migrated the database.
func TestARepairLeavesTheUnitOfAnAgentThatMigratedTheDatabase(t *testing.T) {
	for schema, refused := range map[int]bool{1: false, 2: true} {
		m, tree := byHand(t, schema)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		other := filepath.Join(t.TempDir(), "teleport")
		writeFile(t, other, "1.5.0")
		must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "teleport")))
		must(t, m.Host.Repair(tree))
		must(t, os.Remove(m.Host.Paths.Unit()))
		writeFile(t, m.Host.Paths.Unit(), "[Service]\nExecStart="+other+" start\n")
		m.main.version = "1.5.0" // the agent executes that one, as it did by the link
		if err := m.CheckPair(t.Context(), c, tree, m); failure.Is[*failure.RefusedError](err) != refused {
			t.Errorf("schema %d: %v; want a refusal: %v", schema, err, refused)
		} else if refused && !strings.Contains(err.Error(), m.Host.Paths.Unit()) {
			t.Errorf("the unit is not named: %v", err)
		}
	}
}

// A change from such a host takes over what is there, and no backup is said to be of a version that it is
// not of.
func TestAChangeFromAnotherProgramKeepsItsDatabaseApart(t *testing.T) {
	for _, f := range []fate{holds, diesLate} {
		m, _ := byHand(t, 2)
		m.left("1.0.0")
		m.versions["1.1.0"] = two(f)
		err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
		if (err == nil) != (f == holds) {
			t.Errorf("%s: it ends with %v", f, err)
		}
		meta, err := backup.MetaOf(filepath.Join(m.Host.Paths.KeptBackups(), "found"))
		if err != nil || meta.Version != "" {
			t.Errorf("%s: the database that was found: %+v, %v", f, meta, err)
		}
		schema, err := backup.SchemaOf(t.Context(), filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup"))
		must(t, err)
		if !strings.HasPrefix(schema.Digest(), "1-") {
			t.Errorf("%s: the backup of 1.0.0 has schema %s", f, schema.Digest())
		}
		if m.main == nil || m.seen.schema != 2 || host.Exists(m.Host.Paths.Journal()) {
			t.Errorf("%s: the agent is %+v, on schema %d", f, m.main, m.seen.schema)
		}
	}
}

// A link that leads elsewhere, under an agent that was not restarted since, is put right before a change:
// its undoing would start what the link leads to.
func TestALinkThatLeadsElsewhereUnderTheAgentIsPutRightFirst(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, link string){
		"to nothing": func(*testing.T, string) {},
		"a program":  func(t *testing.T, link string) { writeFile(t, link, "1.5.0") },
		"a link to another": func(t *testing.T, link string) {
			writeFile(t, link+"-other", "1.5.0")
			must(t, os.Symlink(link+"-other", link))
		},
	} {
		m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
		link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
		must(t, os.Remove(link))
		put(t, link)
		before := m.main
		err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
		if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "`teleport-update update` puts the link back") {
			t.Errorf("%s: it ends with %v; want a refusal that names the command", name, err)
		}
		if m.main != before || host.Exists(m.Host.Paths.Journal()) {
			t.Errorf("%s: something was changed: %q", name, m.calls)
		}
	}
}
