package installer

import (
	"context"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/transaction"
	"teleport-update/systemd"
)

// offHost is a host on which updates are off, and whose agent has one run.
type offHost struct {
	*shelf
	asked, starts int
	down          bool
}

const runOfAgent = "0123456789abcdef0123456789abcdef"

func newOffHost(t *testing.T) *offHost {
	h := &offHost{shelf: back(t), down: true}
	ownProc(t, h.Installer)
	h.c.Spec.Enabled = false
	h.save()
	h.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		h.asked++
		agent, err := sightOf(h.Installer, func(u *systemd.Unit, executes *string) {
			u.InvocationID, u.Command, u.User = runOfAgent, []string{"teleport", "start"}, "0"
			if h.down {
				stopped(u, executes)
				u.UnitFileState = "enabled"
			}
		})(ctx)
		return startable{agent, h}, err
	}
	return h
}

// startable is an agent that can be started, and nothing else.
type startable struct {
	transaction.Agent
	h *offHost
}

func (startable) Close() {}

func (s startable) Start(context.Context) error {
	s.h.starts++
	s.h.down = false
	return nil
}

// Where updates are off, an agent that a transaction stopped is started all the same: by the next run of the timer, and by the command
// that the message about an unreadable journal names.
func TestAnAgentThatWeStoppedIsStartedWhereUpdatesAreOff(t *testing.T) {
	for run, scheduled := range map[string]bool{"a run of the timer": true, "a person's command": false} {
		h := newOffHost(t)
		h.Machine.Scheduled = scheduled
		note := h.Machine.Host.Paths.Stopped()
		writeFile(t, note, runOfAgent+" enabled\n")
		must(t, h.Update(t.Context(), UpdateOptions{}))
		if h.starts != 1 || !host.Absent(note) {
			t.Errorf("%s: the agent was started %d times, or the note of the stop stays", run, h.starts)
		}
		if c := configOf(t, h.Installer); c.Spec.ActiveVersion != "1.1.0" || c.Spec.Enabled {
			t.Errorf("%s: the host is on version %s, enabled %v", run, c.Spec.ActiveVersion, c.Spec.Enabled)
		}
	}
}

// A run of the timer on such a host costs no lock and no look at systemd. A person's command looks for what lost its journal.
func TestARunOnAHostWhereUpdatesAreOffOpensNothing(t *testing.T) {
	for run, scheduled := range map[string]bool{"a run of the timer": true, "a person's command": false} {
		h := newOffHost(t)
		h.Machine.Scheduled, h.down = scheduled, false
		left := h.Machine.Host.Paths.History() + ".new" // which whoever has the lock removes
		writeFile(t, left, "half of i")
		tick := h.beginTick()
		must(t, tick.update(t.Context(), UpdateOptions{}))
		if opened := host.Absent(left); opened == scheduled {
			t.Errorf("%s: it takes the update lock: %v", run, opened)
		}
		if scheduled && h.asked > 0 {
			t.Errorf("%s: systemd is asked %d times", run, h.asked)
		}
	}
}

// A command of a person's on a host that has no updater makes no folder for its lock.
func TestARunWithoutAVersionStoreMakesNone(t *testing.T) {
	i := testInstaller(t)
	must(t, i.beginTick().update(t.Context(), UpdateOptions{}))
	if host.Exists(i.Machine.Host.Paths.Versions()) {
		t.Error("it made the version store")
	}
}

// No agent is restarted where updates are off, whatever was closed before.
func TestNoAgentIsRestartedWhereUpdatesAreOff(t *testing.T) {
	h := newOffHost(t)
	h.down = false
	writeFile(t, filepath.Join(h.Processes.Proc, "4711", "cmdline"), "teleport\x00start\x00--fips\x00")
	writeFile(t, filepath.Join(h.Processes.Proc, "4711", "environ"), "")
	must(t, h.Update(t.Context(), UpdateOptions{Restart: true})) // a restart is none of what this agent can do
}
