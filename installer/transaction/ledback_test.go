package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// yesterdaysLinks is a host that was updated to 2.0.0, which runs, and to which the records and links of the day before came back.
func yesterdaysLinks(t *testing.T, next fate) *model {
	t.Helper()
	m := newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: holds}, "3.0.0": {schema: 3, fate: next}})
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	m.RecordSchema(t.Context(), &c)
	must(t, m.transact(t.Context(), m.request(Update)))
	m.write()
	must(t, c.Save(m.Host.Paths.Config()))
	must(t, os.RemoveAll(m.Host.Paths.History()))
	from, _, err := m.Host.Store.Lookup(m.from)
	must(t, err)
	links, err := m.Host.PlanLinks(from)
	must(t, err)
	must(t, host.ApplyLinks(links, m.Host.Paths.Original()))
	m.calls = nil
	return m
}

// Records and links of yesterday came back under an agent that runs. Wherever a change to its version, or to another one, is cut off: the
// agent runs on its database after the next run, and after a boot that comes first.
func TestAChangeUnderLinksOfYesterdayHasAnAgent(t *testing.T) {
	some := sampled{every: 3}
	for _, f := range []fate{holds, dies, diesLate} {
		for _, to := range []string{"2.0.0", "3.0.0"} {
			begun := func() *model {
				m := yesterdaysLinks(t, f)
				m.to = version.Release{Version: to, Edition: version.OSS}
				return m
			}
			dry := begun()
			dry.runs(func() error { return dry.transact(t.Context(), dry.request(Update)) })
			for n := range len(dry.calls) + 1 {
				for _, boot := range []bool{false, true} {
					if some.skips() {
						continue
					}
					t.Run(fmt.Sprintf("%s %s/%d/boot=%v", to, f, n, boot), func(t *testing.T) {
						m := begun()
						m.updateKilledAt(t, n)
						switch begun := host.Exists(m.Host.Paths.Journal()); {
						case m.committedOn(m.to):
						case !begun:
							return
						case boot:
							m.reboot()
						}
						m.tick()
						m.tick()
						if bad := m.sound(); bad != nil {
							t.Error(bad)
						}
						for n, r := range m.rows {
							if r.by == "2.0.0" && r.keep && !slices.Contains(m.seen.rows, n) {
								t.Errorf("row %d of 2.0.0 is lost", n)
							}
						}
					})
				}
			}
		}
	}
}

// A copy of the program of yesterday is in the place of the agent's link: an undoing would put it back.
func TestAChangeIsRefusedOverAProgramThatWouldComeBack(t *testing.T) {
	for of, refused := range map[string]bool{"1.0.0": true, "2.0.0": false} {
		m := yesterdaysLinks(t, dies)
		m.to = version.Release{Version: "3.0.0", Edition: version.OSS}
		link := filepath.Join(m.Host.Paths.LinkDir, host.AgentName)
		must(t, os.Remove(link))
		writeFile(t, link, of)
		must(t, os.Chmod(link, 0o755))
		err := m.transact(t.Context(), m.request(Update))
		said := err != nil && strings.Contains(err.Error(), "move the file away") && failure.Is[*failure.RefusedError](err)
		if said != refused {
			t.Errorf("over %s it ends with %v; want it refused: %v", of, err, refused)
		}
		if bad := m.sound(); bad != nil && !refused {
			t.Error(bad)
		}
	}
}

// The record of the version that runs is gone, too: an undoing could not lead the link there. To take that version over is possible, for
// it comes to the disk before.
func TestAChangeIsRefusedWhereWhatRunsIsNotWhole(t *testing.T) {
	m := yesterdaysLinks(t, dies)
	must(t, os.Remove(filepath.Join(m.Host.Paths.Versions(), "2.0.0", "manifest")))
	m.to = version.Release{Version: "3.0.0", Edition: version.OSS}
	before := m.main
	err := m.transact(t.Context(), m.request(Update))
	if err == nil || !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "`teleport-update pin 2.0.0`") || m.main != before {
		t.Fatalf("it ends with %v; want it refused, and the agent as it was", err)
	}
	m.release("2.0.0")
	m.to.Version = "2.0.0"
	must(t, m.transact(t.Context(), m.request(Pin)))
	if bad := m.closed(); bad != nil {
		t.Error(bad)
	}
}

// The active version of the records of yesterday cannot read the database: the version that can is not removed.
func TestAVersionWhoseDatabaseItMayBeStays(t *testing.T) {
	m := yesterdaysLinks(t, holds)
	m.ends()
	m.launch() // of a program that cannot read the database
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	for _, noted := range []string{c.Status.ActiveSchema, ""} {
		c.Status.ActiveSchema = noted
		m.Retain(t.Context(), c)
		if _, ok, err := m.Host.Store.Lookup(m.to); !ok || err != nil {
			t.Errorf("with the tables %.8q version 2.0.0 is removed (%v)", noted, err)
		}
	}
	c.Status.ActiveSchema = m.digestNow(t.Context())
	m.Retain(t.Context(), c)
	if _, ok, _ := m.Host.Store.Lookup(m.to); ok {
		t.Error("version 2.0.0 stays although the database is of the active version")
	}
}
