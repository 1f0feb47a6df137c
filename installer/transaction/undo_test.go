package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// An agent that was down is stopped to undo a transaction only if somebody has started
// it; killed after that, the next run has to know that it is to run.
func TestAStartOfAnAgentThatWasDownIsNoted(t *testing.T) {
	for _, tc := range []struct {
		name  string
		unit  systemd.Unit
		noted bool
	}{
		{name: "running", unit: systemd.Unit{ActiveState: "active", SubState: "running"}, noted: true},
		{name: "reloading", unit: systemd.Unit{ActiveState: "reloading", SubState: "reload", JobPending: true}, noted: true},
		{name: "starting", unit: systemd.Unit{ActiveState: "activating", SubState: "start", JobPending: true}, noted: true},
		{name: "dying again and again", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart"}, noted: true},
		{name: "down", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead"}},
		{name: "down, with a job that may be a stop", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead", JobPending: true}},
		{name: "being stopped", unit: systemd.Unit{ActiveState: "deactivating", SubState: "stop-sigterm", JobPending: true}},
		{name: "killed when it did not stop", unit: systemd.Unit{ActiveState: "failed", SubState: "failed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := testMachine(t)
			tr := m.open(t, rollingBack, func(j *state.Journal) { j.Agent.State = state.AgentStopped })
			must(t, tr.undoing(false).journalIfStarted(Sight{Unit: tc.unit}))
			want := state.AgentStopped
			if tc.noted {
				want = state.AgentRunning
			}
			read, err := load(m.Host.Paths.Journal())
			if err != nil || tr.j.Agent.State != want || read.Agent.State != want {
				t.Errorf("%v: the agent counts as %s, on disk as %s; want %s", err, tr.j.Agent.State, read.Agent.State, want)
			}
		})
	}
}

func TestAnInterruptionIsCountedOncePerTransaction(t *testing.T) {
	m := testMachine(t)
	writeFile(t, m.Host.Paths.Config(), wholeConfig)
	close := func(id string) state.Status {
		t.Helper()
		tr := m.open(t, restored, func(j *state.Journal) { j.ID, j.Verdict.Against = id, state.AgainstInterruption })
		must(t, tr.closeUndone(t.Context()))
		c, err := m.Host.Paths.LoadConfig()
		if err != nil {
			t.Fatal(err)
		}
		return c.Status
	}
	for n, id := range []string{"a", "a", "b", "b"} {
		if s, want := close(id), n/2+1; s.Interrupted == nil || s.Interrupted.Count != want {
			t.Errorf("after closing %s: %+v; want %d", id, s.Interrupted, want)
		}
	}
	if s := close("c"); s.Failed == nil || s.Failed.Attempts != 1 {
		t.Errorf("after the third: %+v; want a failure", s.Failed)
	}
	if s := close("c"); s.Failed == nil || s.Failed.Attempts != 1 {
		t.Errorf("after the third, once more: %+v; want one failure", s.Failed)
	}
}

// An enable that fails where updates.yaml was lost is not the first.
func TestAnEnableThatFailsKeepsWhatAnEarlierOneSaved(t *testing.T) {
	ends := map[string]func(*testing.T, *Machine){
		"undone": func(t *testing.T, i *Machine) {
			again := filepath.Join(i.Host.Paths.LinkDir, "tbot")
			writeFile(t, again, "another's")
			tree := versions.Tree{Dir: filepath.Join(i.Host.Paths.Versions(), "mine")} // not a version's name: what runs must not matter
			writeFile(t, tree.Binary("tbot"), "program")
			changes, err := host.PlanLinks(i.Host.Paths.LinkDir, tree, nil)
			must(t, err)
			must(t, host.ApplyLinks(changes[:1], i.Host.Paths.Original()))
			must(t, host.RevertLinks(changes[:1], i.Host.Paths.Original()))
			tr := i.open(t, restored, func(j *state.Journal) { j.To.Edition, j.Links = version.OSS, changes[:1] })
			must(t, tr.closeUndone(t.Context()))
			if own := filepath.Join(i.Host.Paths.Original(), changes[0].Before.Saved); host.Exists(own) {
				t.Errorf("%s stays, although its file stands in its place again", own)
			}
		},
		"refused": func(t *testing.T, i *Machine) {
			full := errors.New("no room")
			tr := advancing{&transaction{m: i}, checked{}}
			tr.req.To.Release = version.Release{Version: "2.0.0", Edition: version.OSS}
			tr.req.config = state.EmptyConfig()
			if err := tr.recordRefused(full); !errors.Is(err, full) {
				t.Errorf("%v; want %v", err, full)
			}
		},
	}
	for how, end := range ends {
		for name, trace := range tracesOfAnEnable {
			t.Run(how+", "+name, func(t *testing.T) {
				i, copied := saved(t)
				trace(t, i)
				end(t, i)
				if !host.Exists(copied) {
					t.Error("the only copy of a file that a link took the place of is gone")
				}
			})
		}
		t.Run(how+", none", func(t *testing.T) {
			i, _ := saved(t)
			end(t, i)
			if host.Exists(i.Host.Paths.Original()) {
				t.Error("what the first enable saved stays, although all of it is in its place")
			}
		})
	}
}

// An upgrade of the packaged agent may come between the plan and the first link,
// which waits for the backup of the database.
func TestATransactionThatMetAnotherFileThanPlannedIsClosed(t *testing.T) {
	for how, change := range map[string]func(path string) error{
		"upgraded": func(path string) error { return os.WriteFile(path, []byte("upgraded"), 0o755) },
		"removed":  os.Remove,
	} {
		t.Run(how, func(t *testing.T) {
			i := testMachine(t)
			writeFile(t, i.Host.Paths.Config(), wholeConfig)
			tsh, teleport := filepath.Join(i.Host.Paths.LinkDir, "tsh"), filepath.Join(i.Host.Paths.LinkDir, "teleport")
			tree := versions.Tree{Dir: filepath.Join(i.Host.Paths.Versions(), "2.0.0")}
			for _, path := range []string{tsh, teleport, tree.Binary("tsh"), tree.Binary("teleport")} {
				writeFile(t, path, "1.0.0")
			}
			changes, err := host.PlanLinks(i.Host.Paths.LinkDir, tree, nil)
			must(t, err)
			tr := i.open(t, begun, func(j *state.Journal) {
				j.To.Edition, j.To.Dir, j.Links, j.Unit.Path = version.OSS, tree.Dir, changes, i.Host.Paths.Unit()
			})
			must(t, change(teleport))
			if err := host.ApplyLinks(changes, i.Host.Paths.Original()); err == nil {
				t.Fatal("a file that was not saved was replaced")
			}
			must(t, tr.undo(t.Context()))
			if host.Exists(i.Host.Paths.Journal()) || host.Exists(filepath.Join(i.Host.Paths.Original(), changes[0].Before.Saved)) {
				t.Error("the journal, or a copy of what stands in its place, is left")
			}
			got, err := os.ReadFile(teleport)
			if want := map[string]string{"upgraded": "upgraded"}[how]; string(got) != want || (err != nil) != (want == "") {
				t.Errorf("teleport is %q, %v; want %q", got, err, want)
			}
			if got, err := os.ReadFile(tsh); err != nil || string(got) != "1.0.0" {
				t.Errorf("tsh is %q, %v", got, err)
			}
		})
	}
}

// An error that says nothing was changed would be wrong while a transaction is open.
func TestWhatCannotBeReadInAnOpenTransactionSaysHowFarItIs(t *testing.T) {
	for _, p := range []state.Phase{restored, proven} {
		m := testMachine(t)
		tr := m.open(t, p, nil)
		writeFile(t, m.Host.Paths.Config(), "no configuration")
		_, _, err := tr.config()
		row, _ := phaseOf(p)
		if err == nil || !strings.Contains(err.Error(), "; "+row.cutOff(&tr.j.Journal)+": repair the file") || strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("in the phase %s: %v", p, err)
		}
	}
}
