package transaction

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
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

// `cp` onto the agent's link writes through it: the program of the version is another one then, which has migrated the
// database.
func TestAProgramThatWasCopiedThroughTheLinkIsThePair(t *testing.T) {
	for name, c := range map[string]struct {
		schema  int
		program string
		is      string
		refused bool
	}{
		"another that migrated":         {2, "#!/bin/sh\necho Teleport v1.5.0\n", "1.5.0", true},
		"another that changed no table": {1, "#!/bin/sh\necho Teleport v1.5.0\n", "", false},
		"the same, built again":         {2, "#!/bin/sh\necho Teleport v1.0.0\n", "", false},
		"no program":                    {2, "", "", false},
		"one that does not answer":      {2, "#!/bin/sh\nkill -9 $$\n", "", true},
	} {
		m, tree := byHand(t, c.schema)
		config, err := m.Host.Paths.LoadConfig()
		must(t, err)
		must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "teleport")))
		must(t, m.Host.Repair(tree))
		writeFile(t, tree.Binary("teleport"), c.program)
		m.main.dir = tree.ProgramsDir()
		err = m.CheckPair(t.Context(), config, tree, m)
		if failure.Is[*failure.RefusedError](err) != c.refused {
			t.Errorf("%s: %v; want a refusal: %v", name, err, c.refused)
		}
		if c.refused && !strings.Contains(err.Error(), "teleport-update pin "+orVersion(c.is)) {
			t.Errorf("%s: the way out is not named: %v", name, err)
		}
		sight, err := m.Sight(t.Context())
		must(t, err)
		owner, err := m.databaseOwner(t.Context(), sight, config)
		if must(t, err); owner.another != c.refused || owner.version != c.is {
			t.Errorf("%s: the database is taken to be of %+v", name, owner)
		}
	}
}

// After a reload, systemd may have the process before, which drains its sessions, for the main one.
func TestAnotherProgramThatServesIsThePairWhileOursDrains(t *testing.T) {
	m, tree := byHand(t, 2)
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	sight, err := m.Sight(t.Context())
	must(t, err)
	sight.Serving = sight.Main
	sight.Main = procfs.Process{ID: procfs.ID{PID: sight.Main.PID + 1}, Exe: tree.Binary("teleport")}
	if err := m.CheckPair(t.Context(), c, tree, lookedAt{m.Machine, sight}); !failure.Is[*failure.RefusedError](err) {
		t.Errorf("the link would be put back under a program that serves and migrated: %v", err)
	}
}

// lookedAt is the host with an agent of one's own.
type lookedAt struct {
	*Machine
	sight Sight
}

func (s lookedAt) Sight(context.Context) (Sight, error) { return s.sight, nil }
