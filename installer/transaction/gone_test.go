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
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// The records are those of yesterday, and the version that ran is gone: its link is the only word of it. The version of the records
// is linked again unless the database has other tables than that version runs with, or might.
func TestALinkToAVersionThatIsGoneIsThePair(t *testing.T) {
	for _, noted := range []bool{true, false} {
		for _, kept := range []bool{true, false} {
			for schema := 1; schema <= 2; schema++ {
				t.Run(fmt.Sprintf("noted %v, backup %v, schema %d", noted, kept, schema), func(t *testing.T) {
					m := upgrade(t, behaviour{schema: schema, fate: holds})
					yesterday, err := m.Host.Paths.LoadConfig()
					must(t, err)
					if noted {
						m.RecordSchema(t.Context(), &yesterday)
					}
					must(t, m.do(Update))
					must(t, yesterday.Save(m.Host.Paths.Config()))
					tree, ok, err := m.Active(yesterday)
					if err != nil || !ok {
						t.Fatal(err)
					}
					if !kept {
						must(t, os.RemoveAll(tree.BackupDir()))
					}
					m.main, m.failed = nil, true
					gone := version.Release{Version: "1.1.0", Edition: version.OSS}
					for _, dir := range []string{m.Host.Paths.Programs(), m.Host.Paths.Versions()} {
						must(t, os.RemoveAll(filepath.Join(dir, gone.Version)))
					}
					refused := schema == 2 || !noted && !kept
					err = m.CheckPair(t.Context(), yesterday, tree, m)
					if failure.Is[*failure.RefusedError](err) != refused || err != nil != refused {
						t.Fatalf("%v; want a refusal: %v", err, refused)
					}
					sight, err := m.Sight(t.Context())
					must(t, err)
					o, err := m.databaseOwner(t.Context(), sight, yesterday)
					if want := (owner{another: true, version: gone.Version}); err != nil || refused && o != want {
						t.Errorf("the database is of %+v, %v", o, err)
					}
					if !refused {
						return
					}
					if err := m.CheckPair(t.Context(), yesterday, tree, m); !strings.Contains(err.Error(), "`teleport-update pin 1.1.0`") {
						t.Errorf("the way out is not named: %v", err)
					}
					// An agent of the active version that serves is the pair.
					serves := Sight{Serving: procfs.Process{Exe: tree.Binary(host.AgentName)}}
					serves.Serving.PID = 4711
					if err := m.CheckPair(t.Context(), yesterday, tree, lookedAt{m.Machine, serves}); err != nil {
						t.Errorf("under an agent of the active version: %v", err)
					}
					// What the advice does: the version is fetched again, and the agent is on its database.
					m.to = gone
					m.release(gone.Version)
					if err := m.do(Pin); err != nil || m.main == nil || m.main.version != gone.Version || m.seen.schema != schema {
						t.Errorf("the advice ends with %v: the agent is %+v on schema %d", err, m.main, m.seen.schema)
					}
				})
			}
		}
	}
}

// A downgrade is killed at each call, its journal is emptied, and updates.yaml names a version that the links do not lead to: a person
// has to look at the files. An agent that the downgrade had stopped runs until then, as after a boot, and none that somebody stopped.
func TestAnAgentThatWasStoppedRunsUntilAPersonLooksAtTheJournal(t *testing.T) {
	dry := downgrade(t, holds)
	dry.runs(func() error { return dry.transact(t.Context(), dry.request(Downgrade)) })
	stopped := 0
	for n := range len(dry.calls) {
		for _, somebody := range []bool{false, true} {
			m := downgrade(t, holds)
			m.killedAt(t, Downgrade, n)
			journal := m.Host.Paths.Journal()
			if host.Absent(journal) {
				continue
			}
			m.loses()
			writeFile(t, journal, "")
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			c.Spec.ActiveVersion = "1.2.0"
			must(t, c.Save(m.Host.Paths.Config()))
			down := m.main == nil && !m.failed
			if somebody && down {
				m.launch()
				m.main, down = nil, false
			} else if somebody {
				continue
			}
			m.calls = nil
			err, _ = m.tick()
			if !failure.Is[*failure.NeedsPersonError](err) || !host.Exists(journal) {
				t.Errorf("after %q: it ends with %v", dry.calls[:n], err)
			}
			if starts := slices.Contains(m.calls, "start"); starts != down {
				t.Errorf("after %q, started by somebody %v: the agent is started: %v", dry.calls[:n], somebody, starts)
			}
			if down {
				stopped++
			}
		}
	}
	if stopped == 0 {
		t.Error("no kill left the agent stopped")
	}
}
