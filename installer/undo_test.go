package installer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/health"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// The first time is written down for the next run, which is another process, and
// for status; the second one closes the journal.
func TestAnOldVersionThatDoesNotHoldEitherIsTriedOnceMore(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Paths.Config(), wholeConfig)
	j := &journal{Schema: journalSchema, Phase: restored, To: release{Version: "2.0.0"}, Error: "it died"}
	if err := j.save(i.Paths.Journal()); err != nil {
		t.Fatal(err)
	}
	fails := &health.UnhealthyError{Reason: "it died, too"}
	if err := i.oldFails(j, fails); !errors.Is(err, fails) {
		t.Fatalf("the first time: %v; want it to be an error", err)
	}
	read, err := loadJournal(i.Paths.Journal())
	if err != nil || read.OldFails == "" {
		t.Fatalf("%v: the next run does not know that this one tried", err)
	}
	if r, err := i.Status(t.Context()); err != nil || r.State != StateNeedsAttention || !strings.Contains(r.Explanation, "it died, too") {
		t.Errorf("%v: status is %s, %q; want it to say why the old version does not hold", err, r.State, r.Explanation)
	}
	if err := i.oldFails(read, fails); err != nil {
		t.Errorf("the second time: %v; want the journal to be closed", err)
	}
	if !strings.Contains(read.Error, "it died, too") || !strings.Contains(read.Error, "it died;") {
		t.Errorf("recorded: %q; want both reasons", read.Error)
	}
	// What says nothing about the version is tried again as often as it takes.
	other := errors.New("systemd does not answer")
	if err := i.oldFails(&journal{OldFails: "before"}, other); !errors.Is(err, other) {
		t.Errorf("got %v; want %v", err, other)
	}
}

// An agent that was down is stopped to undo a switch only if somebody has started
// it; killed after that, the next run has to know that it is to run.
func TestAStartOfAnAgentThatWasDownIsHeeded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		unit  systemd.Unit
		heeds bool
	}{
		{name: "running", unit: systemd.Unit{ActiveState: "active", SubState: "running"}, heeds: true},
		{name: "reloading", unit: systemd.Unit{ActiveState: "reloading", SubState: "reload", JobPending: true}, heeds: true},
		{name: "starting", unit: systemd.Unit{ActiveState: "activating", SubState: "start", JobPending: true}, heeds: true},
		{name: "dying again and again", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart"}, heeds: true},
		{name: "down", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead"}},
		{name: "down, with a job that may be a stop", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead", JobPending: true}},
		{name: "being stopped", unit: systemd.Unit{ActiveState: "deactivating", SubState: "stop-sigterm", JobPending: true}},
		{name: "killed when it did not stop", unit: systemd.Unit{ActiveState: "failed", SubState: "failed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := testInstaller(t)
			writeFile(t, i.Paths.Config(), wholeConfig)
			j := &journal{Schema: journalSchema, Phase: rollingBack, To: release{Version: "2.0.0"}, Agent: agentBefore{State: agentStopped}}
			if err := j.save(i.Paths.Journal()); err != nil {
				t.Fatal(err)
			}
			if err := i.heedStart(j, tc.unit); err != nil {
				t.Fatal(err)
			}
			want := agentStopped
			if tc.heeds {
				want = agentRunning
			}
			read, err := loadJournal(i.Paths.Journal())
			if err != nil || j.Agent.State != want || read.Agent.State != want {
				t.Errorf("%v: the agent counts as %s, on disk as %s; want %s", err, j.Agent.State, read.Agent.State, want)
			}
		})
	}
}

func TestAnInterruptionIsCountedOncePerTransaction(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Paths.Config(), wholeConfig)
	close := func(id string) Status {
		t.Helper()
		j := &journal{Schema: journalSchema, ID: id, Phase: restored, To: release{Version: "2.0.0"}, Interrupted: true}
		if err := j.save(i.Paths.Journal()); err != nil {
			t.Fatal(err)
		}
		if err := i.closeUndone(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
		c, err := loadConfig(i.Paths.Config())
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
	ends := map[string]func(*testing.T, *Installer){
		"undone": func(t *testing.T, i *Installer) {
			again := filepath.Join(i.Paths.LinkDir, "tbot")
			writeFile(t, again, "another's")
			tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "mine")} // not a version's name: what runs must not matter
			writeFile(t, tree.Binary("tbot"), "program")
			changes, err := versions.PlanLinks(i.Paths.LinkDir, tree, nil)
			must(t, err)
			must(t, versions.ApplyLinks(changes[:1], i.Paths.Original()))
			must(t, versions.RevertLinks(changes[:1], i.Paths.Original()))
			j := &journal{Schema: journalSchema, ID: "x", Phase: restored, To: release{Version: "2.0.0", Edition: "oss"}, Links: changes[:1]}
			must(t, j.save(i.Paths.Journal()))
			must(t, i.closeUndone(t.Context(), j, nil))
			if own := filepath.Join(i.Paths.Original(), changes[0].Before.Saved); exists(own) {
				t.Errorf("%s stays, although its file stands in its place again", own)
			}
		},
		"refused": func(t *testing.T, i *Installer) {
			full := errors.New("no room")
			tr := transaction{Installer: i, request: SwitchRequest{To: release{Version: "2.0.0", Edition: "oss"}}}
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
				if !exists(copied) {
					t.Error("the only copy of a file that a link took the place of is gone")
				}
			})
		}
		t.Run(how+", none", func(t *testing.T) {
			i, _ := saved(t)
			end(t, i)
			if exists(i.Paths.Original()) {
				t.Error("what the first enable saved stays, although all of it is in its place")
			}
		})
	}
}

// An upgrade of the packaged agent may come between the plan and the first link,
// which waits for the backup of the database.
func TestASwitchThatMetAnotherFileThanPlannedIsClosed(t *testing.T) {
	for how, change := range map[string]func(path string) error{
		"upgraded": func(path string) error { return os.WriteFile(path, []byte("upgraded"), 0o755) },
		"removed":  os.Remove,
	} {
		t.Run(how, func(t *testing.T) {
			i := testInstaller(t)
			writeFile(t, i.Paths.Config(), wholeConfig)
			tsh, teleport := filepath.Join(i.Paths.LinkDir, "tsh"), filepath.Join(i.Paths.LinkDir, "teleport")
			tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
			for _, path := range []string{tsh, teleport, tree.Binary("tsh"), tree.Binary("teleport")} {
				writeFile(t, path, "1.0.0")
			}
			changes, err := versions.PlanLinks(i.Paths.LinkDir, tree, nil)
			must(t, err)
			j := &journal{
				Schema: journalSchema, ID: "x", Phase: begun, To: release{Version: "2.0.0", Edition: "oss", Dir: tree.Dir},
				Links: changes, Unit: unitBefore{Path: i.Paths.Unit()},
			}
			must(t, j.save(i.Paths.Journal()))
			must(t, change(teleport))
			if err := versions.ApplyLinks(changes, i.Paths.Original()); err == nil {
				t.Fatal("a file that was not saved was replaced")
			}
			must(t, i.undo(t.Context(), j, nil))
			if exists(i.Paths.Journal()) || exists(filepath.Join(i.Paths.Original(), changes[0].Before.Saved)) {
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
