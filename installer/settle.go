package installer

import (
	"bytes"
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/trust"
)

// Settle ends a command that may have changed something: it adds the transaction to the history, publishes the host's state, and runs
// hooks.
func (i *Installer) Settle(ctx context.Context, command string) {
	real := i.Machine.Host
	i.Machine.Host = host.ForOneLook(real) // the survey, and the questions beside it, read the agent's unit once
	defer func() { i.Machine.Host = real }()
	now := i.survey()
	defer now.Close()
	if i.seen != nil {
		now.Follow(i.seen)
		i.seen.Close()
		i.seen = nil
	}
	var added *state.Ended
	if c, err := now.Config(); err == nil && i.storeIsOurs() {
		added = i.chronicle().addEnded(c, command)
	}
	i.publish(ctx, now)
	if added != nil {
		i.runHooks(ctx, *added)
	}
}

// storeIsOurs reports whether the folder of the versions is root's alone: another user could lead root's writes elsewhere through it, or
// have written its files. Commands refuse to work there; the work after them must not go on there, either.
func (i *Installer) storeIsOurs() bool { return trust.Path(i.Machine.Host.Paths.Versions()) == nil }

// publish writes the host's state into files, for readers that do not call this program.
func (i *Installer) publish(ctx context.Context, now *survey.Survey) {
	if i.Machine.Host.Paths.RunDir == "" && !host.Exists(i.Machine.Host.Paths.Config()) {
		return
	}
	c, unread := now.Config()
	dir := c.Spec.TextfileDir
	r, err := i.report(ctx, now, StatusOptions{Offline: true}, false)
	if err != nil {
		i.Machine.Host.Log.Debug("the summary of the host could not be recorded", "error", err)
		return
	}
	ours := i.storeIsOurs()
	if ours {
		err := unread
		if err == nil {
			err = i.settleReport(c, r)
		}
		if err != nil {
			i.Machine.Host.Log.Debug("what the agent reports to its cluster could not be written", "error", err)
		}
	}
	if i.Machine.Host.Paths.RunDir != "" {
		data, err := r.Summary(i.Machine.Timestamp()).Text()
		if err == nil {
			err = state.WriteForAll(i.Machine.Host.Paths.Summary(), data)
		}
		if err != nil {
			i.Machine.Host.Log.Debug("the summary of status could not be written", "error", err)
		}
	}
	if dir == "" || !ours {
		return
	}
	var text bytes.Buffer
	if err = r.OpenMetrics(&text); err == nil {
		err = state.WriteTextfile(dir, text.Bytes())
	}
	if err != nil {
		i.Machine.Host.Log.Warn("the metrics for node_exporter could not be written", "folder", dir, "error", err)
	}
}
