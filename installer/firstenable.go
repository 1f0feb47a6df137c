package installer

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
)

// saveFirstEnable has status say that a first enable failed, and what to type again: nothing else
// keeps its options, and no timer tries it again. A host on which nothing else was written down
// is left as it is; so is one on which the enable was refused, for that person has read why.
func (i *Installer) saveFirstEnable(ctx context.Context, c state.Config, opts EnableOptions, failed error) {
	if !host.Exists(i.Machine.Host.Paths.Config()) {
		return
	}
	told := c.Status.FirstEnable != nil
	news := told
	if failed != nil {
		news = c.Spec.ActiveVersion == "" && !failure.Is[*failure.RefusedError](failed)
	}
	if !news {
		return
	}
	err := changeStatus(ctx, i.Machine, func(c *state.Config) {
		c.Status.FirstEnable = nil
		if failed != nil && c.Spec.ActiveVersion == "" {
			c.Status.FirstEnable = &state.FirstEnable{Time: i.Machine.Timestamp(), Command: opts.command(i.Machine.Host.Paths),
				Error: causeOf(failed, c.Status.LastUpdate)}
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
