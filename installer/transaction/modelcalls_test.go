package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"teleport-update/health"
	"teleport-update/internal/layout"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// What the updater asks of systemd in the model, and the calls by which others come between.
// Each does what realAgent does: systemd.Conn and health.Prove forget the crashes before each
// start (host tests of theirs hold that).

func (m *model) connect(context.Context) (Agent, error) {
	switch {
	case !m.booted:
		return absent{}, nil
	case !m.reachable:
		return nil, fmt.Errorf("%w: the socket is gone", systemd.ErrUnreachable)
	}
	return m, nil
}

// call is one call: others act before it and after it, and either of that may keep
// it from being answered.
func (m *model) call(name string, do func() error) error {
	m.look()
	m.calls = append(m.calls, name)
	if m.before != nil {
		if err := m.before(name); err != nil {
			return err
		}
	}
	err := do()
	if m.after != nil {
		if lost := m.after(name); lost != nil {
			return lost
		}
	}
	return err
}

func (m *model) Look(context.Context) (s Sight, err error) {
	err = m.call("look", func() error { s = m.sight(); return nil })
	if err != nil {
		return Sight{}, err
	}
	return s, nil
}

// sight is what systemd and the host's processes show.
func (m *model) sight() (s Sight) {
	s.Unit = systemd.Unit{Name: layout.AgentUnit, LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success",
		FragmentPath: m.Host.Paths.Unit(), ExecStart: filepath.Join(m.Host.Paths.LinkDir, "teleport"), Command: m.command, Type: "simple",
		PIDFile: "/run/teleport.pid", CanReload: true, Restart: "on-failure", StopTimeout: m.drains, User: m.user, Ties: m.ties, Frozen: m.frozenBy != "", FrozenBy: m.frozenBy}
	if m.unit == "" {
		s.LoadState, s.FragmentPath, s.ExecStart = "not-found", "", ""
	}
	if s.LoadState == "loaded" { // of a unit without a file systemd says nothing
		s.UnitFileState = map[bool]string{true: "enabled", false: "disabled"}[m.enabled]
	}
	if m.masked {
		s.LoadState, s.UnitFileState, s.FragmentPath, s.ExecStart = "masked", "masked", "/dev/null", ""
	}
	if m.started {
		s.InvocationID = fmt.Sprint(m.invocation)
	}
	switch {
	case m.main != nil:
		s.ActiveState, s.SubState, s.MainPID = "active", "running", uint32(m.main.pid)
		s.Group = []int{others.pid} // whichever of its processes has files open
		s.Main = procfs.Process{ID: procfs.ID{PID: m.main.pid}, Parent: m.main.parent, Exe: m.main.dir + "/bin/teleport"}
		s.Serving, s.Since = s.Main, m.since
		if m.ending {
			s.ActiveState, s.SubState, s.JobPending, s.StopPending = "deactivating", "stop-sigterm", true, true
		}
	case m.failed && m.atStartLimit():
		s.ActiveState, s.SubState, s.Result = "failed", "failed", "exit-code"
	case m.failed:
		s.ActiveState, s.SubState, s.Result = "activating", "auto-restart", "exit-code"
	case m.badStops && m.started:
		s.ActiveState, s.SubState, s.Result, s.Exit = "failed", "failed", "exit-code", systemd.ExitStatus{Code: systemd.Exited}
	case m.cutShort:
		s.ActiveState, s.SubState, s.Result = "failed", "failed", "signal"
		s.Exit = systemd.ExitStatus{Code: systemd.Killed, Status: int32(syscall.SIGKILL)}
	}
	s.State = StateOf(s.Unit)
	return s
}

func (m *model) Stopping(context.Context) (down bool, err error) {
	err = m.call("stopping", func() error { down = m.down; return nil })
	return down, err
}

func (m *model) Stop(ctx context.Context, how manner) error {
	return m.call("stop", func() error {
		do := func(job func()) func(context.Context) error {
			return func(context.Context) error { job(); return nil }
		}
		return m.sight().stop(ctx, how, do(m.readUnits), do(m.stopUnit))
	})
}

func (m *model) DaemonReload(context.Context) error {
	return m.call("daemon-reload", func() error { m.readUnits(); return nil })
}

func (m *model) ResetFailed(context.Context) error {
	return m.call("reset-failed", func() error { m.resetFailed(); return nil })
}

func (m *model) Start(context.Context) error {
	return m.call("start", func() error { m.resetFailed(); return m.startUnit() })
}

func (m *model) timer(verb, name string) error {
	if m.timers != nil {
		m.timers(verb, name)
	}
	if m.noTimers && verb == "start" {
		return errors.New("systemd does not start the timer")
	}
	return nil
}

func (m *model) Restart(context.Context) error {
	return m.call("restart", func() error { m.resetFailed(); return m.restartUnit() })
}

func (m *model) Disable(context.Context) error {
	return m.call("disable", func() error { m.enabled = false; return nil })
}

func (m *model) StartTimer(_ context.Context, name string, _ bool) error {
	return m.timer("start", name)
}

func (m *model) StopTimer(_ context.Context, name string) error { return m.timer("stop", name) }

func (m *model) Blockers(context.Context, Sight) ([]string, error) { return m.blockers, nil }

func (m *model) ActiveOf(_ context.Context, units []string) (active []string, err error) {
	for _, unit := range units {
		if m.others[unit] {
			active = append(active, unit)
		}
	}
	return active, nil
}

func (m *model) QueueOther(_ context.Context, unit string) (wait func(context.Context) error, err error) {
	err = m.call("start other", func() error { m.others[unit] = true; return nil })
	return func(context.Context) error { return nil }, err
}

func (m *model) Unit(_ context.Context, name string) (systemd.Unit, error) {
	u := systemd.Unit{Name: name, LoadState: "loaded", ActiveState: "active"}
	u.DropIns, _ = filepath.Glob(filepath.Join(m.Host.Paths.UnitDir, name+".d", "zzzz-*.conf")) // the limits of our units
	if up, other := m.others[name]; other && !up {
		u.ActiveState = "inactive"
	}
	if name == m.crashed {
		u.ActiveState = "failed"
	}
	if name == systemd.StartOfUnits {
		u.InvocationID = fmt.Sprint("start ", m.boots)
	} else if m.noUnits {
		return systemd.Unit{}, errors.New("systemd does not tell of the unit")
	}
	return u, nil
}

func (m *model) Close() {}

func (m *model) RemoveEnded(context.Context) {}

func (m *model) RunTransient(context.Context, systemd.Transient) (int, bool, error) {
	return 0, false, m.refusesRun
}

// Try starts the program of a canary, which ends well unless the model's host keeps it from that.
func (m *model) Try(_ context.Context, text func(output string) []byte) (tried systemd.Tried, err error) {
	err = m.call("try", func() error {
		m.tried = append(m.tried, string(text("/run/output")))
		tried.Unit = systemd.Unit{ActiveState: "active", Result: "success", Exit: systemd.ExitStatus{Code: systemd.Exited}}
		tried.Output = "Teleport v1.0.0"
		if m.refusesTry != "" && strings.Contains(m.tried[len(m.tried)-1], m.refusesTry) {
			tried.Unit = systemd.Unit{ActiveState: "failed", Result: "exit-code", Exit: systemd.ExitStatus{Code: systemd.Exited, Status: 217}}
		}
		return nil
	})
	return tried, err
}

// Prove is a job and its watch. Others may act in the middle of the watch, which is
// a call of its own for that.
func (m *model) Prove(ctx context.Context, by health.Means, w health.Watch) (out health.Outcome, err error) {
	verdict := m.call("prove", func() error {
		if by == health.Restart && m.main != nil && w.CanStart != nil {
			if err := w.CanStart(ctx); err != nil {
				return &health.UnhealthyError{Reason: "is not restarted: " + err.Error(), OldServes: true, Prevented: err}
			}
		}
		if m.unit == "" {
			return &health.UnhealthyError{Reason: "cannot be started", Prevented: errors.New("systemd has its unit as not-found")}
		}
		if m.masked {
			return errors.New("Unit teleport.service is masked.")
		}
		if v, _ := m.program(); m.heldBack && v == m.from.Version {
			m.stopUnit()
			return &health.UnhealthyError{Reason: "did not start", Prevented: &systemd.JobError{Verb: systemd.VerbStart, Result: systemd.ResultWaiting}}
		}
		switch {
		case by == health.Start:
			m.resetFailed()
			return m.startUnit()
		case by == health.Restart, by == health.Reload && m.main == nil:
			out.Restarted = true
			m.resetFailed()
			return m.restartUnit()
		case by == health.Reload:
			before := m.main
			must(m.t, m.reloadUnit())
			if m.main == before {
				return &health.UnhealthyError{Reason: "was reloaded, and the process of the new version died", OldServes: true}
			}
		}
		return nil
	})
	if verdict != nil {
		return health.Outcome{}, verdict
	}
	return out, m.call("watch", func() error { defer m.looked(w); return m.judge(w) })
}

// looked is a look in the middle of a watch. What others do meanwhile is there by then.
func (m *model) looked(w health.Watch) {
	if w.Looked == nil {
		return
	}
	if m.before != nil {
		must(m.t, m.before("looked"))
	}
	w.Looked()
}

func (m *model) judge(w health.Watch) error {
	unhealthy := func(reason string) error { return &health.UnhealthyError{Reason: reason} }
	if m.down {
		return health.ErrHostStopping
	}
	if m.main == nil && !m.failed {
		return &health.UnhealthyError{Reason: "was stopped by somebody else", Stopped: true}
	}
	if m.main == nil {
		m.crashLoop() // faster than anybody undoes anything
		return unhealthy("exited with status 1")
	}
	fate := m.versions[m.main.version].fate
	switch {
	case w.Dir != "" && m.main.dir != w.Dir:
		return &health.UnhealthyError{Reason: "executes another version", OldServes: true}
	case fate == diesLate:
		m.dies()
		return unhealthy("died and was restarted by systemd")
	case fate == neverReady && w.ReadyURL != "":
		return unhealthy("is not ready")
	}
	m.crashes = 0 // the window is longer than that of the limit
	return nil
}

// What must be so.
