package transaction

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Agent is the agent of this host as transactions use it: they look at it, change it, and prove
// that it is healthy. It is real if systemd runs, absent if there is no systemd, and unreachable if
// systemd does not answer. A transaction holds all of it; its steps and its undoing declare the
// parts that they use.
type Agent interface {
	looker
	surroundings
	changer
	prover
	starter
	host.Timer
	runner
	trier
	Close()
}

// runner runs this program in a unit of its own; ran is false if there are no units.
type runner interface {
	RunTransient(ctx context.Context, t systemd.Transient) (code int, ran bool, err error)
	// RemoveEnded removes the units of such runs that have ended and that nobody waits for.
	RemoveEnded(ctx context.Context)
}

// looker looks at the agent.
type looker interface {
	Look(ctx context.Context) (Sight, error)
	// Unit returns what systemd knows of a unit, for example of one of the updater's own; the zero
	// Unit if there is no systemd.
	Unit(ctx context.Context, name string) (systemd.Unit, error)
	// Stopping reports whether the host is shutting down.
	Stopping(ctx context.Context) (bool, error)
}

// surroundings are the other units that have to do with the agent.
type surroundings interface {
	// Blockers returns units after which the agent is ordered and which have a job in progress:
	// systemd begins no job of the agent before that job ends.
	Blockers(ctx context.Context, s Sight) ([]string, error)
	// ActiveOf returns which of some units are active.
	ActiveOf(ctx context.Context, units []string) ([]string, error)
	// QueueOther has systemd begin the start of another unit than the agent's; wait waits for its end.
	QueueOther(ctx context.Context, unit string) (wait func(context.Context) error, err error)
}

// changer changes what is to run.
type changer interface {
	// Stop returns when the agent is down.
	Stop(ctx context.Context, how manner) error
	// DaemonReload makes systemd read the unit.
	DaemonReload(ctx context.Context) error
	// ResetFailed has systemd forget that the agent failed before.
	ResetFailed(ctx context.Context) error
}

// prover brings the agent to run and watches it, in one call, as health.Prove
// does, and with its errors.
type prover interface {
	Prove(ctx context.Context, by health.Means, w health.Watch) (health.Outcome, error)
}

// starter starts the agent when nothing depends on whether it is healthy.
type starter interface {
	Start(ctx context.Context) error
	Restart(ctx context.Context) error
	// Disable takes away the links by which it is started at boot.
	Disable(ctx context.Context) error
}

// manner is how an agent is stopped.
type manner int

const (
	// inOrder lets the agent end in its own time.
	inOrder manner = iota
	// atOnce is for a version that failed.
	atOnce
)

// Sight is the agent, seen at one moment. A zero Unit means that systemd does not know the agent,
// or does not run.
type Sight struct {
	systemd.Unit
	State state.AgentState
	// Main is the main process. Serving is the process that the PID file names, which is the one that
	// serves: systemd may still take the previous process, which drains its sessions, for the main
	// process.
	Main, Serving procfs.Process
	// Group are all processes of the agent's control group.
	Group []int
	// Forked means that the main process still executes systemd's own program, not the program of the unit; Main is empty then.
	Forked bool
	// StopPending means that a stop was asked for, and has not ended.
	StopPending bool
}

// mainFrom reports whether the main process executes a program of a folder.
func (s Sight) mainFrom(dir string) bool { return cameFrom(s.Main, dir) }

// runsFrom reports whether the agent executes, or serves by, a program of a folder.
func (s Sight) runsFrom(dir string) bool { return s.mainFrom(dir) || cameFrom(s.Serving, dir) }

// servesFrom reports whether the serving process executes a program of a folder. It prefers the process in the PID file:
// systemd may take the previous process, which drains its sessions, for the main process.
func (s Sight) servesFrom(dir string) bool {
	if s.Serving.PID != 0 {
		return cameFrom(s.Serving, dir)
	}
	return s.mainFrom(dir)
}

// serving returns the process that the PID file names, or all processes, the main one first. One of them has the
// agent's database open.
func (s Sight) serving() (all []procfs.Process) {
	switch {
	case s.Serving.PID != 0:
		return []procfs.Process{s.Serving}
	case s.Main.PID == 0:
		return nil
	}
	all = append(all, s.Main)
	for _, pid := range s.Group {
		if p := procfs.Host().Process(pid); p != nil {
			all = append(all, *p)
		}
	}
	return all
}

// anyFrom reports whether any process of the agent's executes a program of a folder.
func (s Sight) anyFrom(dir string) bool {
	return s.runsFrom(dir) || slices.ContainsFunc(s.Group, func(pid int) bool {
		p := procfs.Host().Process(pid)
		return p != nil && cameFrom(*p, dir)
	})
}

// ended returns the processes that a stop ends. With KillMode=process, sessions that the agent
// drains outlive the stop, and keep its database open.
func (s Sight) ended() []int {
	switch {
	case !s.Ties.SparesProcesses():
		return s.Group
	case s.Ties.KillMode == "none" || s.MainPID == 0:
		return nil
	}
	// systemd may take the previous process for the main one until it reads the PID file again, which
	// it does before the stop.
	if s.Serving.PID != 0 {
		return []int{s.Serving.PID}
	}
	return []int{int(s.MainPID)}
}

// hidden returns a *health.HiddenError if this process may not look at the agent's.
func (s Sight) hidden() error {
	if s.Main.PID != 0 || s.MainPID == 0 {
		return nil
	}
	if why := procfs.Host().Hidden(int(s.MainPID)); why != nil {
		return &health.HiddenError{Unit: s.Name, Why: why}
	}
	return nil
}

// unknown reports whether systemd knows no unit of the agent, and runs none that it knew: the unit
// file was removed, or the data are on a new system. There is nothing to stop.
func (s Sight) unknown() bool { return s.LoadState == "not-found" && s.MainPID == 0 }

// unloadable reports whether systemd could not load the agent's unit, which is down.
func (s Sight) unloadable() bool {
	return (s.LoadState == "bad-setting" || s.LoadState == "error") && s.ActiveState == "inactive"
}

// started reports whether the agent runs, or is about to. A job alone does not count: it may be a
// stop.
func (s Sight) started() bool { return s.Running() || s.ActiveState == "activating" }

func cameFrom(p procfs.Process, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && p.CameFrom(real)
}

// StateOf says what the agent's unit does.
func StateOf(u systemd.Unit) state.AgentState {
	switch {
	case u.Idle():
		return state.AgentStopped
	case u.ActiveState == "failed", strings.HasPrefix(u.SubState, "auto-restart"):
		return state.AgentFailing
	case u.ActiveState == "active", u.ActiveState == "reloading", u.ActiveState == "activating", u.JobPending:
		return state.AgentRunning
	}
	return state.AgentStopped
}

// HostAgent connects to the agent of this host, which is a unit. The error matches
// systemd.ErrUnreachable if systemd runs and does not answer. progress becomes the Progress of each
// health.Watch.
func HostAgent(ctx context.Context, unit string, log *slog.Logger, progress func(health.Glance)) (Agent, error) {
	conn, err := systemd.Dial(ctx)
	if errors.Is(err, systemd.ErrNotRunning) {
		return absent{}, nil
	}
	if err != nil {
		return nil, err
	}
	conn.Waits = func(blocked *systemd.BlockedError) {
		log.Info("systemd finishes jobs of other units first", "unit", blocked.Unit, "waits_for", strings.Join(blocked.By, ", "))
	}
	conn.Withdrew = func(unit string, others []string) {
		log.Warn("the unit starts without others that it wants: their start does not end", "unit", unit, "others", strings.Join(others, ", "))
	}
	return &realAgent{Conn: conn, log: log, progress: progress, unit: unit}, nil
}

// outOfReach reports whether err means that systemd did not answer for long, or that this run may
// not look at the agent's process. Such an error says nothing about the agent, and on a host that
// is up nothing is done without an answer.
func outOfReach(err error) bool {
	if failure.Is[*health.HiddenError](err) {
		return true
	}
	return errors.Is(err, systemd.ErrBroken) || errors.Is(err, systemd.ErrUnreachable)
}

// realAgent is a service of systemd's.
type realAgent struct {
	*systemd.Conn // for Stopping, DaemonReload, the timer and Close
	log           *slog.Logger
	progress      func(health.Glance)
	unit          string
}

func (a *realAgent) ResetFailed(ctx context.Context) error { return a.Conn.ResetFailed(ctx, a.unit) }
func (a *realAgent) Start(ctx context.Context) error       { return a.Conn.Start(ctx, a.unit) }
func (a *realAgent) Restart(ctx context.Context) error     { return a.Conn.Restart(ctx, a.unit) }
func (a *realAgent) Disable(ctx context.Context) error     { return a.Conn.Disable(ctx, a.unit) }

func (a *realAgent) Blockers(ctx context.Context, s Sight) ([]string, error) {
	return a.Conn.Blockers(ctx, s.Unit)
}

func (a *realAgent) QueueOther(ctx context.Context, unit string) (func(context.Context) error, error) {
	return a.Conn.QueueStart(ctx, unit)
}

func (a *realAgent) Prove(ctx context.Context, by health.Means, w health.Watch) (health.Outcome, error) {
	w.Unit, w.Log, w.Progress = a.unit, a.log, a.progress
	return health.Prove(ctx, a.Conn, by, w)
}

func (a *realAgent) RunTransient(ctx context.Context, t systemd.Transient) (int, bool, error) {
	code, err := a.Conn.RunTransient(ctx, t)
	return code, true, err
}

// noAgent is an agent that nobody can look at or command: each call returns why, which is nil if
// there is no systemd.
type noAgent struct{ why error }

func (noAgent) Close()                                                 {}
func (noAgent) RemoveEnded(context.Context)                            {}
func (u noAgent) Blockers(context.Context, Sight) ([]string, error)    { return nil, u.why }
func (u noAgent) ActiveOf(context.Context, []string) ([]string, error) { return nil, u.why }
func (u noAgent) Look(context.Context) (Sight, error)                  { return Sight{}, u.why }
func (u noAgent) Unit(context.Context, string) (systemd.Unit, error)   { return systemd.Unit{}, u.why }
func (u noAgent) Stopping(context.Context) (bool, error)               { return false, u.why }
func (u noAgent) Stop(context.Context, manner) error                   { return u.why }
func (u noAgent) DaemonReload(context.Context) error                   { return u.why }
func (u noAgent) ResetFailed(context.Context) error                    { return u.why }
func (u noAgent) Start(context.Context) error                          { return u.why }
func (u noAgent) Restart(context.Context) error                        { return u.why }
func (u noAgent) Disable(context.Context) error                        { return u.why }
func (u noAgent) StartTimer(context.Context, string, bool) error       { return u.why }
func (u noAgent) StopTimer(context.Context, string) error              { return u.why }
func (u noAgent) Prove(context.Context, health.Means, health.Watch) (health.Outcome, error) {
	return health.Outcome{}, u.why
}
func (u noAgent) Try(context.Context, func(string) []byte) (systemd.Tried, error) {
	return systemd.Tried{}, u.why
}
func (u noAgent) QueueOther(context.Context, string) (func(context.Context) error, error) {
	return func(context.Context) error { return u.why }, u.why
}
func (u noAgent) RunTransient(context.Context, systemd.Transient) (int, bool, error) {
	return 0, false, u.why
}

// absent is the agent on a host without systemd: an image build, a chroot, a plain container. Files
// are changed there, and no process is notified. The state of the agent is unknown, so it counts as
// not wanted (see AgentState.Wanted), and nothing is proven.
type absent struct{ noAgent }

func (absent) Look(context.Context) (Sight, error) { return Sight{State: state.AgentUnknown}, nil }
func (absent) Prove(context.Context, health.Means, health.Watch) (health.Outcome, error) {
	return health.Outcome{}, systemd.ErrNotRunning
}

// unreachable is the agent if systemd runs and does not answer; each call fails. Only the recovery
// at boot uses it, and puts files back all the same. On a host that is up, a run that cannot ask
// has to come back later.
type unreachable struct{ noAgent }

// asFound returns the agent as a transaction found it.
func (s Sight) asFound() state.Agent {
	return state.Agent{State: s.State, UnitFile: s.UnitFileState, Program: s.ExecStart, InvocationID: s.InvocationID, MainPID: s.MainPID}
}

// Agent connects to the agent on a host that is up. It fails if systemd cannot be reached: such a
// run comes back later.
func (m *Machine) Agent(ctx context.Context) (Agent, error) {
	agent, err := m.Connect(ctx)
	if err != nil {
		return nil, failure.Unchanged("reach systemd: %w", err)
	}
	return noting{agent, m}, nil
}
