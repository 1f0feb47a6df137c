package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/host"
)

// A transaction is killed at each call, its journal is removed, and its backup is believed no more: the next run starts
// an agent that the transaction had stopped, and none that somebody stopped since.
func TestAnAgentThatALostTransactionStoppedIsStarted(t *testing.T) {
	for name, scene := range map[string]struct {
		make func(*testing.T) *model
		kind Kind
	}{
		"an update that dies":        {func(t *testing.T) *model { return upgrade(t, two(dies)) }, Update},
		"a downgrade that is proven": {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade},
		"a downgrade that dies":      {func(t *testing.T) *model { return downgrade(t, dies) }, Downgrade},
		"a downgrade, never ready":   {func(t *testing.T) *model { return downgrade(t, neverReady) }, Downgrade},
	} {
		dry := scene.make(t)
		dry.runs(func() error { return dry.transact(t.Context(), dry.request(scene.kind)) })
		stopped := 0
		for n := range len(dry.calls) {
			t.Run(fmt.Sprintf("%s/%d %s", name, n, dry.calls[n]), func(t *testing.T) {
				m := scene.make(t)
				m.killedAt(t, scene.kind, n)
				m.loses()
				down := m.main == nil && !m.failed
				m.calls = nil
				err, _ := m.tick()
				// A version may be linked that cannot start, or not on the database of the other.
				v, _ := m.program()
				fit := m.seen.schema == m.versions[v].schema && m.versions[v].fate != dies
				if starts := m.main != nil || !fit && slices.Contains(m.calls, "start"); down && !starts {
					t.Errorf("after %q, %v: no agent runs", m.calls, err)
				}
				m.staysDown()
				if !down {
					return
				}
				stopped++
				for _, launched := range []bool{false, true} {
					m = scene.make(t)
					m.killedAt(t, scene.kind, n)
					m.loses()
					if launched {
						m.launch() // by somebody, and stopped again
						m.staysDown()
						continue
					}
					m.cutShort, m.calls = true, nil // systemd had to kill it for its stop
					if m.tick(); !slices.Contains(m.calls, "start") {
						t.Errorf("after %q: an agent that was killed for its stop is not started", m.calls)
					}
				}
			})
		}
		if stopped == 0 {
			t.Errorf("%s: no kill leaves the agent down", name)
		}
	}
}

// What keeps the agent from being started keeps the note: a start that fails is said and made again, and an agent that is not
// enabled is left alone until it is.
func TestTheNoteOfAStopStaysUntilTheAgentRan(t *testing.T) {
	for name, tc := range map[string]struct{ keep, let func(*model) }{
		"the start fails": {func(m *model) {
			m.before = func(call string) error {
				if call == "start" {
					return errors.New("a dependency failed")
				}
				return nil
			}
		}, func(m *model) { m.before = nil }},
		"it is disabled": {func(m *model) { m.enabled = false }, func(m *model) { m.enabled = true }},
	} {
		m := upgrade(t, two(dies))
		note := m.Host.Paths.Stopped()
		must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
		tc.keep(m)
		err, _ := m.tick()
		if failed := err != nil && strings.Contains(err.Error(), "a dependency failed"); failed != (m.before != nil) {
			t.Errorf("%s: it says %v", name, err)
		}
		if host.Absent(note) || m.main != nil {
			t.Errorf("%s: the note is gone, or an agent runs", name)
		}
		tc.let(m)
		if err, _ := m.tick(); err != nil || m.main == nil || !host.Absent(note) {
			t.Errorf("%s: then %v, and no agent runs, or the note stays", name, err)
		}
	}
}

// An agent that ran without being enabled at boot is started as well: nobody has changed how it is enabled since.
func TestAnAgentThatIsNotEnabledIsStartedAfterOurStop(t *testing.T) {
	m := upgrade(t, two(dies))
	m.enabled = false
	must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
	if err, _ := m.tick(); err != nil || m.main == nil || !host.Absent(m.Host.Paths.Stopped()) {
		t.Errorf("%v, and no agent runs, or the note stays", err)
	}
}

// staysDown asserts that an agent which somebody stops is not started by the next run.
func (m *model) staysDown() {
	m.t.Helper()
	m.stopUnit()
	if err, _ := m.tick(); m.main != nil {
		m.t.Errorf("an agent that somebody stopped was started, %v", err)
	}
	if !host.Absent(m.Host.Paths.Stopped()) {
		m.t.Error("the note of a stop stays")
	}
}

// A write that was killed leaves nothing behind, also where the next run has nothing to write.
func TestARunRemovesWhatAKilledWriteLeft(t *testing.T) {
	m := upgrade(t, twoHolds)
	for _, path := range []string{m.Host.Paths.History(), m.Host.Paths.LastAnswer()} {
		writeFile(t, path+".new", "half of i")
	}
	if err, _ := m.tick(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(m.Host.Paths.Versions(), "*.new")); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}

// loses is a host whose journal is removed, and whose backups may be written by everybody.
func (m *model) loses() {
	m.t.Helper()
	if err := os.Remove(m.Host.Paths.Journal()); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	backups, _ := filepath.Glob(filepath.Join(m.Host.Paths.Versions(), "*", "backup", "backup.yaml"))
	for _, file := range backups {
		must(m.t, os.Chmod(file, 0o666))
	}
}
