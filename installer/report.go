package installer

import (
	"context"
	"net/http"
	"os"
	"runtime"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/report"
)

func (h heartbeats) reporter(caFile string) *report.Reporter {
	return &report.Reporter{
		File: h.m.Host.Paths.Report(), MachineID: h.machineID, Now: h.m.Now,
		HTTP: func() (*http.Client, error) { return h.http(caFile) },
	}
}

// report reports to the find server how this host does, if the host has a token for
// that. It takes report.Limit at most, and whatever becomes of it, the caller goes
// on: what could not be sent is in the next report. started is an update that is about
// to begin.
func (h heartbeats) report(ctx context.Context, c state.Config, started *find.Outcome) {
	if ctx.Err() != nil {
		return
	}
	r := h.reporter(c.Spec.CAFile)
	if !r.Enabled() {
		return
	}
	spec := c.Spec
	if err := h.m.Host.ResolveProxy(&spec); err != nil {
		return
	}
	b := h.heartbeat(c, spec)
	if started != nil {
		b.Outcome = started
	} else if host.Exists(h.m.Host.Paths.Journal()) {
		b.Outcome = nil // an update is under way, and the last one is not the news
	}
	h.sent(ctx, r.Send(ctx, spec.Proxy, b))
}

// sent says what became of a report where that is worth a word.
func (h heartbeats) sent(ctx context.Context, err error) {
	switch {
	case failure.Is[*report.RemovedError](err):
		h.m.Host.Log.Warn("this host does not report any more", "error", err)
	case err != nil && ctx.Err() == nil:
		h.m.Host.Log.Info("the report did not reach the find server; the next run reports again", "error", err)
	}
}

// heartbeat is what there is to report, from files alone.
func (h heartbeats) heartbeat(c state.Config, spec state.Spec) find.Heartbeat {
	active := c.Active()
	b := find.Heartbeat{
		HostID: h.finder.hostUUID(), BootID: h.m.BootID(), Group: spec.Group, Version: active.Version, Edition: string(active.Edition),
		Arch:   runtime.GOARCH,
		Pinned: spec.Pinned, Disabled: !spec.Enabled, Outcome: outcomeOf(c.Status),
	}
	owner := h.rules.aboutPolicy(c)
	b.BelowMinimum, b.Unsigned = owner.Refused != "", owner.Unsigned != ""
	b.Hostname, _ = os.Hostname()
	// In a host without systemd nobody can tell.
	if active.Version != "" && host.Exists("/run/systemd/system") {
		b.Unhealthy = !procfs.Host().Runs(h.m.Host.Paths.AgentUnit())
	}
	if answer := h.finder.recall(spec); answer != nil {
		if answer.AutoUpdate {
			b.Told = answer.Version
		}
		if held := c.Status.Held; held.Holds(answer.Release) {
			b.Pinned = true
		}
	}
	return b
}

// outcomeOf is what became of the last update. What failed before anything live was
// touched, such as a download, says nothing about the version: only what is backed
// off from does.
func outcomeOf(s state.Status) *find.Outcome {
	last := s.LastUpdate
	if last == nil || last.Target == "" {
		return nil
	}
	result := last.Result
	if result == state.FailedEarly && (s.Failed == nil || s.Failed.Version != last.Target) {
		result = state.Interrupt
	}
	outcome := &find.Outcome{Target: last.Target, State: string(result), Error: last.Error, Time: last.Time}
	if f := s.Failed; f != nil && f.Version == last.Target && (result == state.FailedEarly || result == state.RolledBack) {
		outcome.BacksOffUntil = f.NextAttempt
	}
	return outcome
}

// reportBeginning reports that an update begins, beside it. The function that it returns
// ends that, whether or not it is through.
func (h heartbeats) reportBeginning(ctx context.Context, c state.Config, r transaction.Request) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.report(ctx, c, &find.Outcome{Target: r.To.Version, State: "started", Time: h.m.Timestamp()})
	}()
	return func() {
		cancel()
		<-done
	}
}

// enroll has the host report from now on, and sends the first report. That it cannot
// be sent is no error of enable's.
func (h heartbeats) enroll(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	unlock, err := h.m.LockUpdates(ctx)
	if err != nil {
		return err
	}
	c, err := h.m.FreshConfig()
	if err == nil {
		err = h.reporter(c.Spec.CAFile).Enroll(token, c.Spec.Proxy)
	}
	unlock()
	if err != nil {
		return err
	}
	if h.finder.hostUUID() == "" {
		h.m.Host.Log.Info("this host joins the find server and reports once the agent has written its host_uuid")
	}
	h.report(ctx, c, nil)
	return nil
}
