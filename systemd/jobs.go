package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// JobError is a job that systemd refused or that did not end with "done".
type JobError struct {
	Verb   string // "start", "stop", "restart", "reload"
	Unit   string
	Result string // "failed", "canceled", "timeout", "dependency", …, "unfinished" when it took too long; empty if refused
	Err    error  // why it was refused
}

func (e *JobError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.Verb, e.Unit, e.Err)
	}
	return fmt.Sprintf("%s %s: the job's result is %q", e.Verb, e.Unit, e.Result)
}

func (e *JobError) Unwrap() error { return e.Err }

const (
	// jobCap bounds the wait for a job of a unit without time limits of its own.
	jobCap    = 15 * time.Minute
	jobMargin = 30 * time.Second
	jobPoll   = time.Second
)

// Start starts a unit and waits for the job. Failed attempts of before are
// forgotten first: at the start limit systemd refuses every start, ours too.
func (c *Conn) Start(ctx context.Context, unit string) error {
	if err := c.ResetFailed(ctx, unit); err != nil {
		return err
	}
	return c.runJob(ctx, "start", unit, (*sdbus.Conn).StartUnitContext)
}

// Stop stops a unit and waits for the job; one that does not run is fine. A
// process that ignores the request is killed by systemd after the unit's
// StopTimeout.
func (c *Conn) Stop(ctx context.Context, unit string) error {
	return c.runJob(ctx, "stop", unit, (*sdbus.Conn).StopUnitContext)
}

// Restart restarts a unit, or starts it, and waits for the job. systemd finishes
// a restart even if the caller dies. Failed attempts of before are forgotten
// first, as for Start.
func (c *Conn) Restart(ctx context.Context, unit string) error {
	if err := c.ResetFailed(ctx, unit); err != nil {
		return err
	}
	return c.runJob(ctx, "restart", unit, (*sdbus.Conn).RestartUnitContext)
}

// Reload reloads a running unit and waits for the job.
func (c *Conn) Reload(ctx context.Context, unit string) error {
	return c.runJob(ctx, "reload", unit, (*sdbus.Conn).ReloadUnitContext)
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

type jobCall func(c *sdbus.Conn, ctx context.Context, unit, mode string, result chan<- string) (int, error)

func (c *Conn) runJob(ctx context.Context, verb, unit string, call jobCall) error {
	u, err := c.Unit(ctx, unit)
	if err != nil {
		return err
	}
	p, err := c.queueJob(ctx, verb, unit, call)
	if err != nil {
		return err
	}
	return c.waitJob(ctx, p, jobLimit(u))
}

// jobLimit is how long systemd may need for a restart of u.
func jobLimit(u Unit) time.Duration {
	return min(u.StartTimeout, jobCap) + min(u.StopTimeout, jobCap) + jobMargin
}

type pendingJob struct {
	verb, unit string
	id         uint32
	result     <-chan string
}

// queueJob asks for a job. A reload is asked for once: a second one would make
// the agent hand over twice.
func (c *Conn) queueJob(ctx context.Context, verb, unit string, call jobCall) (pendingJob, error) {
	try := do[pendingJob]
	if verb == "reload" {
		try = once[pendingJob]
	}
	p, err := try(ctx, c, func(ctx context.Context, l *link) (pendingJob, error) {
		result := make(chan string, 1)
		id, err := call(l.api, ctx, unit, "replace", result)
		return pendingJob{verb, unit, uint32(id), result}, err
	})
	if err != nil {
		return pendingJob{}, &JobError{Verb: verb, Unit: unit, Err: err}
	}
	return p, nil
}

// waitJob waits for the job's result. If the connection broke, the result is
// lost: then the job counts as done once the unit no longer has it, and the
// unit's state has to tell the rest.
func (c *Conn) waitJob(ctx context.Context, p pendingJob, limit time.Duration) error {
	tooLong := time.NewTimer(limit)
	defer tooLong.Stop()
	poll := time.NewTicker(jobPoll)
	defer poll.Stop()
	gone := 0
	for {
		select {
		case result := <-p.result:
			if result != "done" {
				return &JobError{Verb: p.verb, Unit: p.unit, Result: result}
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s %s: wait for the job, which goes on: %w", p.verb, p.unit, ctx.Err())
		case <-tooLong.C:
			return &JobError{Verb: p.verb, Unit: p.unit, Result: "unfinished"}
		case <-poll.C:
			u, err := c.Unit(ctx, p.unit)
			if err != nil {
				continue
			}
			// Twice, because the signal may be on its way.
			if u.job.id == p.id {
				gone = 0
			} else if gone++; gone >= 2 {
				return nil
			}
		}
	}
}
