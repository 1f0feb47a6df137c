package transaction

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"teleport-update/health"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// abandon undoes what was done, and returns why. The undoing goes on even if the context of the
// transaction has ended.
func (t *advancing) abandon(ctx context.Context, cause error) error {
	if outOfReach(cause) && ctx.Err() == nil {
		return t.t.leftOpen(cause)
	}
	unhealthy, isUnhealthy := errors.AsType[*health.UnhealthyError](cause)
	var err error
	switch {
	case ctx.Err() != nil:
		// This says more than the name of the call that could not be ended.
		cause = fmt.Errorf("the updater was told to stop in the middle of it (%w)", context.Cause(ctx))
		err = t.t.j.setVerdict(state.AgainstInterruption, cause.Error())
	case isUnhealthy:
		err = t.t.j.setUnhealthy(cause.Error(), unhealthy)
	case failure.Is[*failure.RefusedError](cause), ofTheHost(cause):
		// An obstacle in an administrator's files says nothing about the version, nor does a job that systemd
		// does not do for the previous one.
		err = t.t.j.setVerdict(state.AgainstCircumstances, cause.Error())
	default:
		err = t.t.j.setVerdict(state.AgainstVersion, cause.Error())
	}
	err = errors.Join(err, t.t.j.setErrorCode(ErrorCode(cause)))
	t.t.m.Host.Log.Warn("rolling back", "version", t.req.To.String(), "error", cause)
	err = errors.Join(err, t.t.undo(context.WithoutCancel(ctx)))
	if errors.Is(err, health.ErrHostStopping) {
		return errNeedsBoot
	}
	if err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("switch to %s: %w; and rolling back failed: %w; "+
			"the next run tries again, see `teleport-update status`", t.req.To, cause, err)}
	}
	what := "the transaction to version %s failed and was undone: %w; the agent is on %s"
	if isUnhealthy && unhealthy.Prevented == nil {
		what = "version %s was not healthy and was rolled back: %w; the agent is on %s"
	}
	return fmt.Errorf(what, t.req.To, cause, OrNone(t.req.config.Spec.ActiveVersion))
}

// ofTheHost reports whether an error is of the host's: it had no room, systemd did not read its files, a start could not be tried, a
// stop did not come to its end, or a job was not begun.
func ofTheHost(err error) bool {
	switch job, isJob := errors.AsType[*systemd.JobError](err); {
	case errors.Is(err, unix.ENOSPC): // the next run looks for room before it stops the agent; a quota (EDQUOT) it does not see
		return true
	case failure.Is[*reloadError](err), failure.Is[*untriedError](err):
		return true
	default:
		return isJob && (job.Verb == systemd.VerbStop || job.Result == systemd.ResultWaiting)
	}
}

// recordRefused notes a transaction that ended before its journal was open.
func (t *advancing) recordRefused(cause error) error {
	c, err := t.t.m.FreshConfig()
	if err != nil {
		return errors.Join(cause, err)
	}
	if failure.Is[*failure.RefusedError](cause) && t.req.Kind.Automatic() {
		return t.t.m.ReportRefusal(&c, t.req.To.Release, cause)
	}
	c.Status.LastUpdate = &state.LastUpdate{
		Time: t.t.m.Timestamp(), Target: t.req.To.Version, TargetEdition: t.req.To.Edition,
		Result: state.FailedEarly, Error: cause.Error(), ErrorCode: ErrorCode(cause),
	}
	if t.t.m.Host.NeverEnabled(c) {
		t.t.m.Host.ForgetFirst(t.req.To.Release)
	}
	return errors.Join(cause, c.Save(t.t.m.Host.Paths.Config()))
}

// refusedOf returns the record of a refusal.
func refusedOf(r versions.Release, refusal error) *state.Refused {
	byPolicy, digest := policy.Refuses(refusal)
	return &state.Refused{Version: r.Version, Edition: r.Edition, Reason: refusal.Error(), Policy: byPolicy, SHA256: digest}
}

// ReportRollbackRefused is ReportRefusal for a rollback that the timer wanted to begin. The version
// that find wants has a record of its own: both may be refused in one run.
func (m *Machine) ReportRollbackRefused(c *state.Config, r versions.Release, refusal error) error {
	known, refused := c.Status.RollbackRefused, refusedOf(r, refusal)
	if known.Is(r) && known.Reason == refused.Reason {
		m.Host.Log.Warn("the rollback stays refused", "version", r.Version, "error", refusal)
		return nil
	}
	c.Status.RollbackRefused = refused
	c.Status.LastUpdate = &state.LastUpdate{Time: m.Timestamp(), Target: r.Version, TargetEdition: r.Edition, Result: state.FailedEarly,
		Error: refusal.Error(), ErrorCode: ErrorCode(refusal)}
	return m.recordRefusal(c, refusal)
}

// recordRefusal returns the refusal, whether or not it can be written down: a full disk may be the cause of both, and the
// refusal says so.
func (m *Machine) recordRefusal(c *state.Config, refusal error) error {
	if err := c.Save(m.Host.Paths.Config()); err != nil {
		m.Host.Log.Warn("the refusal could not be recorded for status", "error", err)
	}
	return refusal
}

// ReportRefusal makes a refused transaction an error the first time and a log line
// from then on: the timer would otherwise fail every ten minutes for as long as
// the cluster wants it.
func (m *Machine) ReportRefusal(c *state.Config, r versions.Release, refusal error) error {
	known, refused := c.Status.Refused, refusedOf(r, refusal)
	if known.Is(r) && m.Scheduled {
		m.Host.Log.Warn("the transaction stays refused", "version", r.Version, "error", refusal)
		if known.Reason == refusal.Error() {
			return nil
		}
		c.Status.Refused = refused
		return c.Save(m.Host.Paths.Config())
	}
	c.Status.Refused = refused
	c.Status.LastUpdate = &state.LastUpdate{Time: m.Timestamp(), Target: r.Version, TargetEdition: r.Edition, Result: state.FailedEarly,
		Error: refusal.Error(), ErrorCode: ErrorCode(refusal)}
	return m.recordRefusal(c, refusal)
}
