package installer

import (
	"context"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
)

// runAgain is what helps after a command that failed before anything was changed. An advice that names the whole
// command takes its place.
const runAgain = "remove the cause, then run the command again"

// saveFirstEnable has status say that a first enable failed, and what to type again: nothing else
// keeps its options, no timer tries it again, and cloud-init's log is read by nobody. It writes updates.yaml,
// with updates off, also if the enable came to nothing before it had a version: as when find was not reached.
// A host on which an enable was refused is left as it is, for that person has read why; so is one that an enable
// failed on before it had the lock.
func (i *Installer) saveFirstEnable(ctx context.Context, c state.Config, opts EnableOptions, failed error) {
	news := c.Status.FirstEnable != nil
	if failed != nil {
		news = c.Spec.ActiveVersion == "" && isNewsOf(i.Machine.Host, failed)
	}
	if !news {
		return
	}
	err := changeStatus(ctx, i.Machine, func(c *state.Config) {
		c.Status.FirstEnable = nil
		if failed != nil && c.Spec.ActiveVersion == "" {
			c.Status.FirstEnable = &state.FirstEnable{Time: i.Machine.Timestamp(), Command: opts.command(i.Machine.Host.Paths),
				Error: strings.TrimSuffix(causeOf(failed, c.Status.LastUpdate), ": "+runAgain)}
		}
	})
	if err != nil {
		i.Machine.Host.Log.Debug("how the first enable ended could not be recorded for status", "error", err)
	}
}

// causeOf is the cause of an error: a transaction ended in a process of its own, and wrote down why.
func causeOf(failed error, last *state.LastUpdate) string {
	if failure.Is[*transaction.ExitError](failed) && last != nil && last.Error != "" {
		return last.Error
	}
	return failed.Error()
}

// isNewsOf reports whether the failure of a first enable is written down. Without an updates.yaml it is only on a host
// that no enable succeeded on: where the file was lost, its absence is what the next command goes by.
func isNewsOf(h *host.Host, failed error) bool {
	if failure.Is[*failure.RefusedError](failed) || failure.Is[*state.BusyError](failed) {
		return false
	}
	if host.Exists(h.Paths.Config()) {
		return true
	}
	return host.Exists(h.Paths.Versions()) && trust.Path(h.Paths.Versions()) == nil && h.CheckNeverEnabled() == nil
}
