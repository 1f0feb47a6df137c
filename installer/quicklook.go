package installer

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/regular"
	"teleport-update/report"
)

const (
	// settledFor is how long runs may go by the finding of one before. It bounds what no
	// premise shows: what systemd alone knows, such as a timer that was masked.
	settledFor     = time.Hour
	maxSettledSize = 1 << 20
)

// QuickLook is a run of the timer where nothing has changed since one that found nothing
// to do: it asks find, and with the same answer it reports, writes down when it asked and
// how the host is, and says what that run said. RunDir is where the runs of this boot leave
// what they remember.
//
// It returns false, and has changed nothing, in every other case: where a premise is
// another one, the agent another process, the answer another or none, a lock held, the
// record an hour old or in doubt. Then the whole run is due; it asks find again.
func QuickLook(ctx context.Context, runDir, userAgent string, log *slog.Logger) bool {
	s, ok := loadSettled(state.Paths{RunDir: runDir}.Settled())
	if !ok || s.RunDir != runDir || !s.current(time.Now()) {
		return false
	}
	paths := state.Paths{DataDir: s.DataDir, RunDir: s.RunDir}
	unlock, ok := lockQuietly(paths.UpdateLock())
	if !ok {
		return false
	}
	defer unlock()
	if slices.ContainsFunc(s.Premises, func(p premise) bool { return !p.holds() }) {
		return false
	}
	i := &Installer{
		Machine:   &transaction.Machine{Host: &host.Host{Paths: paths, Log: log}, Now: time.Now, Scheduled: true},
		UserAgent: userAgent, MachineID: report.MachineID,
	}
	return i.lookQuickly(ctx, s)
}

func (i *Installer) lookQuickly(ctx context.Context, s settled) bool {
	answer, err := i.put(ctx, s.CAFile, s.Question)
	if err != nil || answerText(answer) != s.Answer {
		return false
	}
	i.renew(i.Paths.LastAnswer(), s.LastFound, 0o600)
	i.Log.Info(s.Reason)
	if s.Heartbeat != "" {
		i.sent(ctx, i.reporter(s.CAFile).SendPrepared(ctx, s.Question.Proxy, s.Heartbeat))
	}
	i.renew(i.Paths.Summary(), s.Summary, 0o644)
	return true
}

// renew writes a file that says when it was written.
func (i *Installer) renew(path, text string, mode os.FileMode) {
	now := i.Timestamp().Format(time.RFC3339)
	if err := state.Renew(path, []byte(strings.Replace(text, never, now, 1)), mode); err != nil {
		i.Log.Debug("a record of this run could not be written", "file", path, "error", err)
	}
}

func loadSettled(path string) (s settled, ok bool) {
	data, err := regular.Read(path, maxSettledSize, regular.NoLink|regular.Sealed)
	if err != nil {
		return settled{}, false
	}
	return decodeSettled(string(data))
}

// current reports whether the record is of the last hour, and of a run that was given the
// same command line and environment.
func (s settled) current(now time.Time) bool {
	at, err := strconv.ParseInt(s.At, 10, 64)
	age := now.Sub(time.Unix(at, 0))
	return err == nil && age >= 0 && age < settledFor && s.Given == given()
}

// lockQuietly takes a lock that nobody holds, and neither waits for it nor makes it.
func lockQuietly(path string) (unlock func(), ok bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return func() { f.Close() }, true
}
