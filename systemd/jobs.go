package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// JobError is a job that systemd refused or that did not end with "done".
type JobError struct {
	Verb   Verb
	Unit   string
	Result string // "failed", "canceled", "timeout", "dependency", …, ResultUnfinished, ResultWaiting; empty if refused
	Err    error  // why it was refused, or a *BlockedError
}

func (e *JobError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.Verb, e.Unit, e.Err)
	}
	return fmt.Sprintf("%s %s: the job's result is %q", e.Verb, e.Unit, e.Result)
}

func (e *JobError) Unwrap() error { return e.Err }

// A Verb is what a job does.
type Verb string

const (
	VerbStart   Verb = "start"
	VerbStop    Verb = "stop"
	VerbRestart Verb = "restart"
	VerbReload  Verb = "reload"
)

const (
	// JobCap bounds the wait for a job of a unit without time limits of its own.
	JobCap    = 15 * time.Minute
	jobMargin = 30 * time.Second
	jobPoll   = time.Second
)

// ResultUnfinished is the result of a job that took too long. It goes on.
const ResultUnfinished = "unfinished"

// Start starts a unit and waits for the job. It resets earlier failures of the unit first: at the start
// limit systemd refuses every start, ours too.
//
// If the unit crashed and systemd is about to start it again, Start restarts it: a start would wait until
// systemd does so, which is never if a stop was requested meanwhile and taken back.
func (c *Conn) Start(ctx context.Context, unit string) error {
	wait, err := c.QueueStart(ctx, unit)
	if err != nil {
		return err
	}
	return wait(ctx)
}

// QueueStart is Start up to the moment at which systemd has the job; wait waits for the job. A caller that starts several units can
// let systemd begin all of them before it waits for the first one.
func (c *Conn) QueueStart(ctx context.Context, unit string) (wait func(context.Context) error, err error) {
	if err := c.ResetFailed(ctx, unit); err != nil {
		return nil, err
	}
	u, err := c.Unit(ctx, unit)
	if err != nil {
		return nil, err
	}
	verb := VerbStart
	if strings.HasPrefix(u.SubState, "auto-restart") {
		verb = VerbRestart
	}
	job, err := c.QueueJob(ctx, verb, unit)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return c.WaitJob(ctx, job, JobLimit(u)) }, nil
}

// Stop stops a unit and waits for the job; a unit that does not run is fine. A process that
// ignores the request is killed by systemd after the unit's StopTimeout.
func (c *Conn) Stop(ctx context.Context, unit string) error {
	return c.runJob(ctx, VerbStop, unit)
}

// StopWithin is Stop for a unit whose own StopTimeout is too long to wait for: it kills processes that have not
// ended after patience, and likewise each of the unit's commands that come after that.
func (c *Conn) StopWithin(ctx context.Context, unit string, patience time.Duration) error {
	u, err := c.Unit(ctx, unit)
	if err != nil {
		return err
	}
	p, err := c.QueueJob(ctx, VerbStop, unit)
	if err != nil {
		return err
	}
	var killed error
	for kills := 0; ; kills++ {
		err := c.WaitJob(ctx, p, patience)
		job, ok := errors.AsType[*JobError](err)
		if !ok || job.Result != ResultUnfinished {
			return err
		}
		if kills == mostKills || IsDenied(killed) {
			return errors.Join(err, killed)
		}
		// systemd also refuses a kill if the last process ended halfway: what counts is whether the stop ends now.
		killed = c.kill(ctx, u)
	}
}

// mostKills: one kill each for the processes of ExecStop=, the main process, and the processes of ExecStopPost=.
const mostKills = 3

// kill kills those processes of a unit that a stop of it ends, and the command of the unit that runs.
func (c *Conn) kill(ctx context.Context, u Unit) error {
	targets := []sdbus.Who{sdbus.All}
	switch u.Ties.KillMode {
	case "process":
		targets = []sdbus.Who{sdbus.Main, sdbus.Control}
	case "none":
		targets = []sdbus.Who{sdbus.Control}
	}
	var none []error
	for _, target := range targets {
		_, err := do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
			return struct{}{}, l.api.KillUnitWithTarget(ctx, u.Name, target, int32(syscall.SIGKILL))
		})
		if err != nil {
			none = append(none, fmt.Errorf("kill what is left of %s: %w", u.Name, err))
		}
	}
	if len(none) < len(targets) {
		return nil // it has a main process, or a command that runs, and need not have both
	}
	return errors.Join(none...)
}

// Restart restarts a unit, or starts it, and waits for the job. systemd finishes a restart even if
// the caller dies. Like Start, it resets earlier failures first.
func (c *Conn) Restart(ctx context.Context, unit string) error {
	if err := c.ResetFailed(ctx, unit); err != nil {
		return err
	}
	return c.runJob(ctx, VerbRestart, unit)
}

// ResetFailed forgets that a unit failed and how often it was restarted.
func (c *Conn) ResetFailed(ctx context.Context, unit string) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.api.ResetFailedUnitContext(ctx, unit)
	})
	if err != nil && !isNoSuchUnit(err) {
		return fmt.Errorf("reset the failures of %s: %w", unit, err)
	}
	return nil
}

// isNoSuchUnit recognises a unit that systemd does not hold in memory.
func isNoSuchUnit(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == "org.freedesktop.systemd1.NoSuchUnit"
}

// IsDenied reports whether an error is a refusal by a policy of the bus, of polkit or of SELinux. Only a try shows such a
// policy; it says something about the host, not about the unit.
func IsDenied(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && slices.Contains(deniedErrors, e.Name)
}

var deniedErrors = []string{"org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.AuthFailed",
	"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"}

// isAboutOthers reports whether systemd refused a job because of the jobs that it has already. That says nothing about the unit.
func isAboutOthers(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && slices.Contains(otherJobs, e.Name)
}

var otherJobs = []string{"org.freedesktop.systemd1.TransactionIsDestructive", "org.freedesktop.systemd1.TransactionJobsConflicting",
	"org.freedesktop.systemd1.ShuttingDown"}

func (c *Conn) runJob(ctx context.Context, verb Verb, unit string) error {
	u, err := c.Unit(ctx, unit)
	if err != nil {
		return err
	}
	p, err := c.QueueJob(ctx, verb, unit)
	if err != nil {
		return err
	}
	return c.WaitJob(ctx, p, JobLimit(u))
}

// JobLimit is how long systemd may need for a restart of u.
func JobLimit(u Unit) time.Duration {
	return min(u.StartTimeout, JobCap) + min(u.StopTimeout, JobCap) + jobMargin
}

// A PendingJob is a job that systemd has accepted; WaitJob returns its result.
type PendingJob struct {
	Verb   Verb
	Unit   string
	ID     uint32
	result <-chan string
}

// QueueJob asks for a job, which replaces a pending one. A reload is asked for once: a second one
// would make the agent hand over twice.
func (c *Conn) QueueJob(ctx context.Context, verb Verb, unit string) (PendingJob, error) {
	try := do[PendingJob]
	if verb == VerbReload {
		try = once[PendingJob]
	}
	p, err := try(ctx, c, func(ctx context.Context, l *link) (PendingJob, error) {
		call := map[Verb]func(context.Context, string, string, chan<- string) (int, error){
			VerbStart:   l.api.StartUnitContext,
			VerbStop:    l.api.StopUnitContext,
			VerbRestart: l.api.RestartUnitContext,
			VerbReload:  l.api.ReloadUnitContext,
		}[verb]
		result := make(chan string, 1)
		id, err := call(ctx, unit, "replace", result)
		return PendingJob{verb, unit, uint32(id), result}, err
	})
	if err != nil {
		return PendingJob{}, &JobError{Verb: verb, Unit: unit, Err: err}
	}
	return p, nil
}

// WaitJob waits for the job's result, for at most limit once systemd has begun the job; the wait for jobs
// of other units depends on those. If the connection broke, the result is lost: then the job counts as
// done once the unit no longer has it, and the caller has to look at the unit's state.
func (c *Conn) WaitJob(ctx context.Context, p PendingJob, limit time.Duration) error {
	tooLong := time.NewTimer(limit)
	defer tooLong.Stop()
	poll := time.NewTicker(jobPoll)
	defer poll.Stop()
	gone, others := 0, queue{}
	for {
		select {
		case result := <-p.result:
			if result != "done" {
				return &JobError{Verb: p.Verb, Unit: p.Unit, Result: result}
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s %s: wait for the job, which goes on: %w", p.Verb, p.Unit, ctx.Err())
		case <-tooLong.C:
			return &JobError{Verb: p.Verb, Unit: p.Unit, Result: ResultUnfinished}
		case <-poll.C:
			u, err := c.Unit(ctx, p.Unit)
			if err != nil {
				continue
			}
			if u.Job.ID != p.ID {
				// Twice, because the signal may be on its way.
				if gone++; gone >= 2 {
					return nil
				}
				continue
			}
			gone = 0
			waits, err := others.look(ctx, c, p, u)
			if err != nil {
				return err
			}
			if waits {
				tooLong.Reset(limit)
			}
		}
	}
}

// JobVerb returns the verb of a pending job. An error that matches ErrBroken says nothing about
// the job; any other error means that it is over.
func (c *Conn) JobVerb(ctx context.Context, j Job) (Verb, error) {
	return do(ctx, c, func(ctx context.Context, l *link) (Verb, error) {
		verb, err := l.get(ctx, j.path, "org.freedesktop.systemd1.Job", "JobType")
		return Verb(verb), err
	})
}

// BlockedError names the units that keep systemd from beginning a job.
type BlockedError struct {
	Unit string
	By   []string
}

func (e *BlockedError) Error() string {
	if len(e.By) == 0 {
		return fmt.Sprintf("systemd does not begin a job of %s; `systemctl list-jobs` shows what it waits for", e.Unit)
	}
	return fmt.Sprintf("%s waits for %s, which has a job in progress that comes first; `systemctl list-jobs` shows it", e.Unit,
		strings.Join(e.By, ", "))
}
