package installer

import (
	"context"
	"errors"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// endedEarly is the outcome of an attempt that ended before the change of version, with the release on disk. The history takes it
// from updates.yaml, with the command that asked.
func endedEarly(m *transaction.Machine, to version.Release, cause error) *state.LastUpdate {
	return &state.LastUpdate{Time: m.Timestamp(), Target: to.Version, TargetEdition: to.Edition, Result: state.FailedEarly,
		Error: cause.Error(), ErrorCode: transaction.ErrorCode(cause)}
}

// writeEarlyEnd writes down that a person's command ended so, and returns why: its error says what state the host is in.
func writeEarlyEnd(ctx context.Context, m *transaction.Machine, to version.Release, cause error) error {
	if ctx.Err() != nil || host.Absent(m.Host.Paths.Config()) { // a refused first enable leaves nothing
		return cause
	}
	err := changeStatus(ctx, m, func(c *state.Config) { c.Status.LastUpdate = endedEarly(m, to, cause) })
	if err != nil {
		m.Host.Log.Debug("the attempt could not be recorded for the history", "error", err)
	}
	return cause
}

// reportTickRefused is writeEarlyEnd for a run of update. A refusal has a condition of status, and a run of the timer fails
// with it once.
func reportTickRefused(ctx context.Context, m *transaction.Machine, to version.Release, cause error) error {
	if !failure.Is[*failure.RefusedError](cause) {
		return writeEarlyEnd(ctx, m, to, cause)
	}
	c, unlock, err := m.Open(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	defer unlock()
	return m.ReportRefusal(&c, to, cause)
}
