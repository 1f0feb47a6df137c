// Package health decides whether a version of the agent is healthy.
//
// The report of a systemd job does not show that: a service that dies at once has been started successfully as far as its job is concerned.
// So the unit, its processes and their programs are looked at many times a second, through a window in which a version that dies again and
// again is sure to be seen dying. A function of samples alone judges the looks (see judge), so every rule can be tested without a service
// manager.
package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"teleport-update/health/settings"
	"teleport-update/internal/duration"
	"teleport-update/systemd"
)

// Watch says what must hold, and for how long.
type Watch struct {
	Unit string // "teleport.service"
	// Dir is the version's folder, …/versions/15.1.1: the agent has to execute a file inside. If Dir is empty, any executable is accepted,
	// as when restoring an agent that no version owns.
	Dir string
	// Settings are a person's settings. A Window of zero: 30 s or MinWindow, whichever is longer. A shorter one may end before a failure can
	// show. Time in which the host stood still does not count.
	settings.Settings
	// ReloadLimit is how long a process of the new version may need to take over
	// after a reload; then the agent is restarted. Zero: 15 s.
	ReloadLimit time.Duration
	// CanStart says why the agent would not start again, if that is known: then an agent that serves is not stopped for a restart. Nil: it is
	// stopped.
	CanStart func(context.Context) error
	Log      *slog.Logger // nil: silent
	// Progress is called twice a second while the agent is watched; nil: it is not.
	Progress func(Glance)
	// Looked is called after each look at the agent, many times a second; nil: it is not.
	Looked func()
}

// Glance is a watch at one moment.
type Glance struct {
	Agent string        // its state in a few words
	Left  time.Duration // of the window, if all stays well
}

// progressEvery is how often Progress is called.
const progressEvery = 500 * time.Millisecond

// Outcome says how an agent became healthy.
type Outcome struct {
	// Restarted: the agent was restarted, by demand or because a reload had no effect.
	Restarted bool
	MainPID   uint32
}

const (
	defaultWindow      = 30 * time.Second
	defaultReloadLimit = 15 * time.Second
)

// MinWindow is the shortest window in which a version that dies again and again
// is sure to be seen dying: three pauses between restarts, and 15 s for starts
// that take a while to fail.
func MinWindow(u systemd.Unit) time.Duration {
	return 3*min(u.RestartDelay, systemd.JobCap) + 15*time.Second
}

// UnhealthyError means that the new version was not healthy.
type UnhealthyError struct {
	Unit   string
	Reason string // completes "the agent …"
	// OldServes: the process of the previous version serves on as if nothing had happened, because the new one died before it took over. It is
	// false if the new one had taken over the PID file: then the old one may be about to end, and could not be reloaded any more.
	OldServes bool
	// Stopped: somebody stopped the unit on purpose, which says nothing about the version. The job shows it, or the process died of SIGTERM.
	Stopped bool
	// NeverBegan: systemd began no process of the agent. That says something about the version only if systemd begins one of another version.
	NeverBegan bool
	// Prevented is why the agent was not restarted, or why systemd refused its start, has not begun it, ended it for the sake of another unit,
	// or waits for a stop of the agent that has not ended, or the limit that ended it. That says nothing about the version. Nil: nothing
	// prevented it.
	Prevented error
}

func (e *UnhealthyError) Error() string {
	text := e.Unit + ": the agent " + e.Reason
	if e.OldServes {
		text += "; the version before serves on"
	}
	return text
}

func (e *UnhealthyError) Unwrap() error { return e.Prevented }

// HiddenError means that this program may not look at the agent's process, as without CAP_SYS_PTRACE
// or under hidepid=. It says nothing about the agent, nor about its version.
type HiddenError struct {
	Unit string
	Why  error
}

func (e *HiddenError) Error() string {
	return fmt.Sprintf("this run may not look at the process of %s: %v; give it back the right to (CAP_SYS_PTRACE, "+
		"ProtectProc=, a profile of AppArmor's)", e.Unit, e.Why)
}

func (e *HiddenError) Unwrap() error { return e.Why }

// ErrHostStopping means that the host is shutting down: then nothing that happens to the agent says anything about its version.
var ErrHostStopping = errors.New("the host is shutting down")

// Means is the way to have the agent run the version that is to be watched.
type Means int

const (
	// Start is for a unit that was stopped before.
	Start Means = iota + 1
	// Restart is for a unit that runs, fails or was stopped.
	Restart
	// Reload has the agent hand over to a new process. Within ReloadLimit a process of the new version has to take over, and it has to live
	// through the window; the previous process may go on draining its sessions.
	//
	// If a process of the new version was seen and died while the old one serves on, the result is an UnhealthyError with OldServes. The agent
	// is restarted and judged by that if the unit cannot be reloaded, does not run, or goes down before there is a process of the new version,
	// or if no process takes over. It is not restarted if CanStart says that it would not start again.
	Reload
	// Running watches the agent that runs now, without touching it: an updater that was interrupted does not know how far it came. An agent
	// without a process that executes from Dir is unhealthy.
	Running
)

// Prove brings the agent to run, and watches it: each is one call, because the
// watch listens before the job is asked for. The error is nil if the agent was healthy:
// through the whole window the unit was running, its main process stayed the same
// and executed from Dir, and systemd did not have to restart it. Exiting with 0 is
// a failure too.
//
// A restart by somebody else begins the watch again, twice at most. The error is an *UnhealthyError, ErrHostStopping, or an error that says
// why nothing could be found out, such as the context's.
func Prove(ctx context.Context, conn *systemd.Conn, by Means, w Watch) (Outcome, error) {
	p, err := prepare(ctx, conn, w)
	if unloadable, ok := errors.AsType[*UnhealthyError](err); ok {
		unloadable.OldServes = by != Running && p.before.Running()
	}
	if err != nil {
		return Outcome{}, err
	}
	switch {
	case by == Start:
		return p.act(ctx, systemd.VerbStart)
	case by == Running:
		return p.running(ctx)
	case by == Restart, !p.before.CanReload, !p.before.Running():
		return p.restart(ctx, p.before.Running())
	}
	return p.reload(ctx)
}

// watching is one Watch with the defaults filled in.
type watching struct {
	Watch
	conn   *systemd.Conn
	rules  rules
	before systemd.Unit
}

func prepare(ctx context.Context, conn *systemd.Conn, w Watch) (*watching, error) {
	var err error
	if w.Dir != "" {
		if w.Dir, err = filepath.EvalSymlinks(w.Dir); err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.Unit, err)
		}
	}
	w.Log = cmp.Or(w.Log, slog.New(slog.DiscardHandler))
	p := &watching{Watch: w, conn: conn}
	p.rules.Settings = w.Settings
	if w.ReadyURL != "" {
		if p.rules.ReadyURL, err = readyName(w.ReadyURL); err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.Unit, err)
		}
	}
	if p.before, err = conn.Unit(ctx, w.Unit); err != nil {
		return nil, p.failure(ctx, err)
	}
	if p.before.LoadState != "loaded" {
		why := fmt.Errorf("systemd has its unit as %s: `systemctl status %s` says why", p.before.LoadState, w.Unit)
		return p, &UnhealthyError{Unit: w.Unit, Reason: "cannot be started or watched: " + why.Error(), Prevented: why}
	}
	p.rules.Window = cmp.Or(w.Window, duration.Duration(DefaultWindow(p.before)))
	p.rules.reloadLimit = cmp.Or(w.ReloadLimit, defaultReloadLimit)
	p.rules.startLimit = systemd.JobLimit(p.before)
	return p, nil
}

// DefaultWindow returns how long an agent has to be healthy if no setting says how long.
func DefaultWindow(u systemd.Unit) time.Duration { return max(defaultWindow, MinWindow(u)) }
