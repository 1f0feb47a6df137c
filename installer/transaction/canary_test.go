package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// An agent that systemd would not start, as it is or as the version would have it, keeps a change from beginning.
func TestACanaryThatFailsKeepsAChangeFromBeginning(t *testing.T) {
	for _, kind := range []Kind{Update, Downgrade} {
		for name, says := range map[string]string{
			"the agent":   "the agent, which runs, would not start again as it is",
			"the version": "could not be started",
		} {
			m := upgrade(t, twoHolds)
			if kind == Downgrade {
				m = downgrade(t, holds)
			}
			if name == "the agent" {
				m.refusesTry = filepath.Join(m.Host.Paths.LinkDir, "teleport") + `" version`
			} else {
				m.refusesTry = m.to.Version + "/bin/teleport"
			}
			agent, calls := m.main, len(m.calls)
			err := m.do(kind)
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "217, USER") {
				t.Errorf("%s, %s: %v; tried %q", kind, name, err, m.tried)
			}
			for _, call := range m.calls[calls:] {
				if call != "look" && call != "try" {
					t.Errorf("%s, %s: it called %s", kind, name, call)
				}
			}
			if m.main != agent || host.Exists(m.Host.Paths.Journal()) {
				t.Errorf("%s, %s: the agent is %+v, was %+v; or there is a journal", kind, name, m.main, agent)
			}
			m.refusesTry = ""
			if err := m.do(kind); err != nil {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
			m.endsOn(m.to.Version)
		}
	}
}

// A host on which no start can be tried, on which systemd does not read its files, or which has no room says nothing about the version,
// although the change has begun.
func TestAHostWithoutRoomSpeaksAgainstNoVersion(t *testing.T) {
	full := fmt.Errorf("write a unit for a trial: %w", &os.PathError{Op: "mkdir", Path: "/run/systemd/system/x", Err: unix.ENOSPC})
	for name, tc := range map[string]struct {
		call string
		err  error
	}{
		"no room for a canary": {"try", full},
		"a canary has no end":  {"try", errors.New("systemd did not end the trial of a unit in time")},
		"systemd reads no more": {"daemon-reload", errors.New("Refusing to reload, not enough space available on /run/systemd/. Currently, 4M are free, " +
			"but a safety buffer of 16M is enforced.")},
		"no room as it looks": {"look", fmt.Errorf("write a record: %w", unix.ENOSPC)},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds)
			reloaded, failed := false, false
			m.before = func(call string) error {
				reloaded = reloaded || call == "daemon-reload"
				if !reloaded || failed || call != tc.call {
					return nil
				}
				failed = true
				return tc.err
			}
			if err := m.do(Update); err == nil || !strings.Contains(err.Error(), tc.err.Error()) || !strings.Contains(err.Error(), "was undone") {
				t.Errorf("it ends with %v", err)
			}
			m.endsOn(m.from.Version)
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			if c.Status.Failed != nil {
				t.Errorf("held against the version: %+v", c.Status.Failed)
			}
			must(t, m.do(Update))
			m.endsOn(m.to.Version)
		})
	}
}

// The unit of the version to come is tried with the drop-ins that are there, and the unit that is there with the version that runs:
// before the change, and the next start once the version has proven itself.
func TestACanaryHasTheUnitOfItsVersion(t *testing.T) {
	m := upgrade(t, twoHolds)
	dropIn := filepath.Join(m.Host.Paths.UnitDir, m.Host.Paths.AgentUnit()+".d", "50-x.conf")
	must(t, os.MkdirAll(filepath.Dir(dropIn), 0o755))
	must(t, os.WriteFile(dropIn, []byte("[Service]\nNice=3\n"), 0o644))
	must(t, m.do(Update))
	if len(m.tried) != 3 {
		t.Fatalf("tried %q", m.tried)
	}
	for n, program := range []string{m.Host.Paths.LinkDir + "/teleport", "/1.1.0/bin/teleport", m.Host.Paths.LinkDir + "/teleport"} {
		if !strings.Contains(m.tried[n], program+`" version`) || !strings.Contains(m.tried[n], "Nice=3\n") {
			t.Errorf("canary %d is:\n%s", n, m.tried[n])
		}
	}
}

// A removal of the agent's package may take a file away that the agent needs: success is not said before its next start was tried.
func TestTheNextStartIsTriedOnceThePackageIsGone(t *testing.T) {
	m := upgrade(t, twoHolds)
	tr := m.open(t, proven, func(j *state.Journal) { j.Packages.Found = []state.Package{{Kind: "deb", Name: "teleport"}} })
	tr.agent = m
	must(t, tr.startsWithoutPackages(t.Context()))
	m.refusesTry = "version"
	err := tr.startsWithoutPackages(t.Context())
	if !failure.Is[*failure.NeedsPersonError](err) || !strings.Contains(err.Error(), "would not start again") || strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("it is %v", err)
	}
	tr.j.Packages.Found = nil
	must(t, tr.startsWithoutPackages(t.Context()))
}
