package installer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// A transaction that is open hides no agent that is down, unless an updater is at work on it, or nobody wanted the agent to run.
func TestAnOpenTransactionHidesNoAgentThatIsDown(t *testing.T) {
	failed := func(h *wellHost) { h.unit.ActiveState, h.unit.SubState, h.executes = "failed", "failed", "" }
	stopped := func(h *wellHost) { h.unit.ActiveState, h.unit.SubState, h.executes = "inactive", "dead", "" }
	for name, tc := range map[string]struct {
		agent  func(h *wellHost)
		before state.AgentState
		works  bool
		down   bool
	}{
		"it fails":                             {agent: failed, before: state.AgentRunning, down: true},
		"it failed before, too":                {agent: failed, before: state.AgentFailing, down: true},
		"it is stopped":                        {agent: stopped, before: state.AgentRunning, down: true},
		"it was stopped before":                {agent: stopped, before: state.AgentStopped},
		"nobody knows how it was":              {agent: stopped, before: state.AgentUnknown},
		"it runs":                              {agent: func(*wellHost) {}, before: state.AgentRunning},
		"it fails, and an updater is at work":  {agent: failed, before: state.AgentRunning, works: true},
		"it is stopped; an updater is at work": {agent: stopped, before: state.AgentRunning, works: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newWellHost(t)
			tc.agent(h)
			j := &state.Journal{ID: "x", BootID: "boot", Started: noon, Phase: "rolling_back", Agent: state.Agent{State: tc.before}}
			j.From, j.To.Release = &state.Tree{Release: h.config.Active()}, version.Release{Version: "1.2.0", Edition: version.Enterprise}
			j.Writer = "/usr/bin/teleport-update"
			must(t, j.Save(h.Machine.Host.Paths.Journal()))
			want := []decision.Type{decision.TransactionOpen}
			if tc.works {
				unlock, err := state.Lock(t.Context(), h.Machine.Host.Paths.UpdateLock(), 0)
				must(t, err)
				defer unlock()
				h.Processes.Proc = "/proc"
				want[0] = decision.TransactionRunning
			}
			if tc.down {
				want = append(want, decision.AgentDown)
			}
			if _, types := h.state(t); !slices.Equal(types, want) {
				t.Errorf("status has %v, want %v", types, want)
			}
		})
	}
}

// The next run closes a transaction, unless it fails as the last one did: status says why that could not.
func TestAnOpenTransactionSaysWhyTheLastRunCouldNot(t *testing.T) {
	for name, tc := range map[string]struct {
		ended time.Time
		error string
		says  bool
	}{
		"a run failed since":               {noon.Add(-time.Minute), "put the links back: no space left on device", true},
		"a run ended well since":           {noon.Add(-time.Minute), "", false},
		"a run failed before it was begun": {noon.Add(-3 * time.Hour), "put the links back: no space left on device", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newWellHost(t)
			h.ticks.Ended, h.ticks.Error = tc.ended, tc.error
			j := &state.Journal{ID: "x", BootID: "boot", Started: noon.Add(-time.Hour), Phase: "rolling_back", Agent: state.Agent{State: state.AgentRunning}}
			j.From, j.To.Release = &state.Tree{Release: h.config.Active()}, version.Release{Version: "1.2.0", Edition: version.Enterprise}
			must(t, j.Save(h.Machine.Host.Paths.Journal()))
			h.state(t)
			report, err := h.Status(t.Context(), StatusOptions{})
			must(t, err)
			if says := strings.Contains(report.Explanation, "; the last run failed: put the links back"); says != tc.says {
				t.Errorf("status says %q", report.Explanation)
			}
		})
	}
}

// A run that finds no room may not be able to write that down: status looks for itself.
func TestAnOpenTransactionNamesAFullFileSystem(t *testing.T) {
	h := newWellHost(t)
	records := h.Machine.Host.Paths.Versions()
	j := &state.Journal{ID: "x", BootID: "boot", Started: noon.Add(-time.Hour), Phase: "proven", Agent: state.Agent{State: state.AgentRunning}}
	j.From, j.To.Release = &state.Tree{Release: h.config.Active()}, version.Release{Version: "1.2.0", Edition: version.Enterprise}
	must(t, j.Save(h.Machine.Host.Paths.Journal()))
	h.state(t)
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system of our own: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(small, 0)) })
	must(t, os.CopyFS(filepath.Join(small, "versions"), os.DirFS(records)))
	must(t, os.Rename(records, records+"-before"))
	must(t, os.Symlink(filepath.Join(small, "versions"), records))
	for says, fill := range map[string]int64{"; no run can close it now: not enough space on the file system of " + records: 1 << 20, "": 0} {
		must(t, os.RemoveAll(filepath.Join(small, "filler")))
		if err := os.WriteFile(filepath.Join(small, "filler"), make([]byte, fill), 0o600); fill > 0 && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		report, err := h.Status(t.Context(), StatusOptions{})
		must(t, err)
		if !strings.Contains(report.Explanation, says) || says == "" && strings.Contains(report.Explanation, "no run can") {
			t.Errorf("filled with %d bytes, status says %q", fill, report.Explanation)
		}
	}
}

// Nor does a journal that cannot be read.
func TestAnUnreadableJournalHidesNoAgentThatIsDown(t *testing.T) {
	for name, tc := range map[string]struct {
		agent func(h *wellHost)
		down  bool
	}{
		"it fails":   {func(h *wellHost) { h.unit.ActiveState, h.unit.SubState, h.executes = "failed", "failed", "" }, true},
		"it is down": {func(h *wellHost) { h.unit.ActiveState, h.unit.SubState, h.executes = "inactive", "dead", "" }, true},
		"a person disabled it": {func(h *wellHost) {
			h.unit.ActiveState, h.unit.SubState, h.unit.UnitFileState, h.executes = "inactive", "dead", "disabled", ""
		}, false},
		"it runs": {func(*wellHost) {}, false},
	} {
		h := newWellHost(t)
		tc.agent(h)
		writeFile(t, h.Machine.Host.Paths.Journal(), "")
		want := []decision.Type{decision.RecordsBroken}
		if tc.down {
			want = append(want, decision.AgentDown)
		}
		if _, types := h.state(t); !slices.Equal(types, want) {
			t.Errorf("%s: status has %v, want %v", name, types, want)
		}
	}
}
