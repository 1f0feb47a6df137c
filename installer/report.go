package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/internal/folder"
	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
	"teleport-update/report"
)

func (h heartbeats) reporter(caFile string) *report.Reporter {
	return &report.Reporter{
		File: h.m.Host.Paths.Report(), MachineID: h.machineID, Now: h.m.Now,
		HTTP: func() (*http.Client, error) { return h.http(caFile) },
	}
}

// report reports to the find server how this host does, if the host has a token for that. It takes report.Limit at most. The caller goes on
// whether or not the report arrives: the next report has the news again. started is an update that is about to begin.
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

// sent logs the result of a report, unless it was sent.
func (h heartbeats) sent(ctx context.Context, err error) {
	switch {
	case failure.Is[*report.RemovedError](err):
		h.m.Host.Log.Warn("this host does not report any more", "error", err)
	case err != nil && ctx.Err() == nil:
		h.m.Host.Log.Info("the report did not reach the find server; the next run reports again", "error", err)
	}
}

// heartbeat returns the content of a report, from files alone.
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

// outcomeOf returns the outcome of the last update. A failure before anything live was touched, such as a download, says nothing about the
// version, unless the host backs off from it.
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

// reportBeginning reports that an update begins, beside it. The function that it returns ends the report, sent or not.
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

// enroll has the host report from now on, and sends the first report. Enable does not fail if it cannot be sent.
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

// seeReport makes the agent report to its cluster, or not, as the configuration says, from its next start on.
func (i *Installer) seeReport(ctx context.Context, spec state.Spec) error {
	changed, err := i.Machine.Host.ReportToCluster(!spec.NoClusterReport)
	if err != nil {
		// The agent must not wait for a report about it.
		i.Machine.Host.Log.Warn("the agent may not report its updates to its cluster", "error", err)
	}
	if !changed {
		return nil
	}
	return i.reloadUnits(ctx)
}

// settleReport writes what the agent reports to its cluster: a host that is held, or backs off, does not follow the cluster, just like a
// pinned one.
func (i *Installer) settleReport(c state.Config, r view.Status) error {
	stays := func(c decision.Condition) bool {
		return c.Type == decision.HostHeld || c.Type == decision.VersionBacksOff
	}
	return i.Machine.Host.WriteClusterConfig(c, c.Spec.Pinned || slices.ContainsFunc(r.Conditions, stays))
}

var uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// hostUUID reads the id that the agent gave this host, as find knows it; empty if the agent has not run yet. It becomes part of a request,
// so only an id of a known form is taken.
func (f finder) hostUUID() string {
	dir, err := f.m.Host.AgentDataDir()
	if err != nil {
		f.m.Host.Log.Warn("host_uuid is left out of the question to find", "error", err)
		return ""
	}
	file := filepath.Join(dir, "host_uuid")
	// The file belongs to the agent's user. Its content is used only if it has the form of an id.
	data, err := regular.Read(file, 256, regular.NoLink)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.m.Host.Log.Warn("host_uuid is left out of the question to find", "error", err)
		return ""
	}
	id, ok := find.HostID(strings.TrimSpace(string(data)))
	if !ok {
		f.m.Host.Log.Warn("host_uuid is not a UUID and is left out of the question to find", "file", file)
		return ""
	}
	return id
}

// maxUpdateID is more than a UUID and a line's end have, in bytes.
const maxUpdateID = 64

// updateID reads the id that the agent made for its updater, by which its cluster picks canaries; empty if the agent has made none. The
// file belongs to the agent's user, and becomes part of a request: only a UUID is taken, and only from a folder that no one but that user
// and root can enter.
func (f finder) updateID(spec state.Spec) string {
	if spec.NoClusterReport || f.m.Host.Paths.AgentRunDir == "" {
		return ""
	}
	id, err := readUpdateID(f.m.Host.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.m.Host.Log.Warn("update_id is left out of the question to find", "error", err)
	}
	return id
}

func readUpdateID(paths state.Paths) (string, error) {
	dir := paths.AgentRunDir
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is no folder that only root and the agent's user can enter (mode %v)", dir, info.Mode())
	}
	f, err := folder.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	uid, _, err := f.Owner()
	if err != nil {
		return "", err
	}
	path := paths.UpdateID()
	file, info, err := regular.Open(f.At(strings.TrimPrefix(path, dir+"/")), regular.NoLink)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != uid {
		return "", fmt.Errorf("%s belongs to user %d, who is not the agent's", path, owner)
	}
	data := make([]byte, maxUpdateID)
	n, err := file.Read(data)
	id := strings.TrimSpace(string(data[:n]))
	if err != nil || info.Size() >= maxUpdateID || !uuidShape.MatchString(id) {
		return "", fmt.Errorf("%s does not hold one UUID", path)
	}
	return id, nil
}
