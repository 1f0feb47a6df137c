package transaction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teleport-update/health"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// The updater was told to stop when the reload had brought no process as yet, and was killed
// before it put anything back. The old process has served all the time.
func TestAnOldProcessThatNeverLeftIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		schema int
		kept   bool
	}{
		"no other version has touched the database": {0, true},
		"another one migrated it, and is gone":      {2, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "prove", 1, false).make(t)
			m.edit(func(j *state.Journal) {
				j.Phase, j.Verdict = rollingBack, state.Verdict{Reason: "it was told to stop", Against: state.AgainstInterruption}
			})
			m.write()
			mine := slices.Max(m.seen.rows)
			if tc.schema != 0 {
				m.exec(fmt.Sprintf("PRAGMA user_version=%d", tc.schema))
			}
			before := m.main.pid
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.0.0")
			if kept := slices.Contains(m.seen.rows, mine); kept != tc.kept {
				t.Errorf("the row of the old process is there: %v", kept)
			}
			if (m.main.pid == before) != tc.kept {
				t.Errorf("process %d ran before, and %d does after", before, m.main.pid)
			}
		})
	}
}

// Whatever keeps the old version from being watched, it is started: an agent beats none.
func TestAnErrorOfBringingBackLeavesAnAgent(t *testing.T) {
	for _, call := range []string{"look", "prove"} {
		m := upgrade(t, two(diesLate))
		stopped := false
		m.before = func(name string) error {
			stopped = stopped || name == "stop"
			if j, err := state.LoadJournal(m.Host.Paths.Journal()); stopped && err == nil && j.Phase == restored && name == call {
				return errNoAnswer
			}
			return nil
		}
		m.needsPerson(m.do(Update), "does not answer")
		if m.main == nil || m.main.version != "1.0.0" {
			t.Errorf("%s failed, and %+v runs", call, m.main)
		}
		m.dropHooks()
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		m.endsOn("1.0.0")
	}
}

// Each call after the agent was stopped fails in turn, without being made or with its answer
// lost: some agent runs all the same.
func TestNoCallOfBringingBackLeavesTheAgentStopped(t *testing.T) {
	some := sampled{every: 17}
	fail := func(*model) error { return errNoAnswer }
	for kind, make := range map[Kind]func(*testing.T) *model{
		Update:    func(t *testing.T) *model { return upgrade(t, two(diesLate)) },
		Downgrade: func(t *testing.T) *model { return downgrade(t, diesLate) },
	} {
		dry := make(t)
		_ = dry.do(kind)
		first := slices.Index(dry.calls, "stop") + 1
		if first == 0 || len(dry.calls)-first < 4 {
			t.Fatalf("nothing was brought back: %q", dry.calls)
		}
		for n := first; n < len(dry.calls); n++ {
			for _, o := range []outcome{{name: "fails", before: fail}, {name: "has its answer lost", after: fail}} {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s, call %d, %s, %s", kind, n, dry.calls[n], o.name), func(t *testing.T) {
					m := make(t)
					m.meets(n, o)
					err := m.do(kind)
					if m.main == nil {
						t.Errorf("no agent runs; it ended with %v after %q", err, m.calls)
					}
					m.dropHooks()
					if err, _ := m.tick(); err != nil {
						t.Error(err)
					}
					m.endsOn(m.from.Version)
				})
			}
		}
	}
}

// Of two versions that systemd begins neither, it is the host that keeps both down: no version is blamed, and each run tries again.
// If it begins the one before, it speaks against the other.
func TestWhatKeepsSystemdFromBeginningBothVersionsBlamesNone(t *testing.T) {
	for down, blamed := range map[int]bool{1: true, 5: false} {
		m := downgrade(t, holds)
		proofs := 0
		m.before = func(call string) error {
			if call != "prove" {
				return nil
			}
			if proofs++; proofs > down {
				return nil
			}
			m.ends()
			m.failed = true
			return &health.UnhealthyError{Reason: systemd.ExitStatus{Code: systemd.Exited, Status: 217}.String(), NeverBegan: true}
		}
		err := m.do(Downgrade)
		if err == nil || !strings.Contains(err.Error(), "217, USER") {
			t.Errorf("it ends with %v; want what systemd says", err)
		}
		for n := 2; n < down; n++ {
			if err, _ := m.tick(); !failure.Is[*failure.NeedsPersonError](err) {
				t.Errorf("run %d ends with %v", n, err)
			}
		}
		if err, _ := m.tick(); err != nil {
			t.Errorf("the last run ends with %v", err)
		}
		m.endsOn("1.1.0")
		c, err := m.Host.Paths.LoadConfig()
		if must(t, err); (c.Status.Failed != nil) != blamed {
			t.Errorf("systemd began %d starts in vain: failed %+v; want the version blamed: %v", down, c.Status.Failed, blamed)
		}
	}
}
