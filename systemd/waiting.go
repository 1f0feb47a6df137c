package systemd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// waitLimit is how long a job of ours may wait for jobs of other units before that counts as what
// it is: something about the host. A job that systemd could begin it begins at once.
const waitLimit = 15 * time.Second

// ResultWaiting is the result of a job that systemd has not begun: it waits for other units.
const ResultWaiting = "waiting"

// Blockers names the units whose jobs would keep a job of u waiting: u is ordered after them, and
// they have not been started, or stopped, to the end. A restart would stop u at once and wait
// with the start.
func (c *Conn) Blockers(ctx context.Context, u Unit) ([]string, error) {
	names, err := do(ctx, c, func(ctx context.Context, l *link) (names []string, err error) {
		jobs, err := l.api.ListJobsContext(ctx)
		for _, j := range jobs {
			if j.JobType != "nop" && j.Unit != u.Name && slices.Contains(u.Ties.After, j.Unit) {
				names = append(names, j.Unit)
			}
		}
		return names, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs of systemd: %w", err)
	}
	return names, nil
}

// BlockedError is what keeps systemd from beginning a job.
type BlockedError struct {
	Unit string
	By   []string
}

func (e *BlockedError) Error() string {
	if len(e.By) == 0 {
		return fmt.Sprintf("systemd does not begin a job of %s; `systemctl list-jobs` shows what it waits for", e.Unit)
	}
	return fmt.Sprintf("%s waits for %s, after which it is ordered and which has a job in progress; `systemctl list-jobs` shows it", e.Unit,
		strings.Join(e.By, ", "))
}

// notBegun reports whether a pending job still waits for others.
func (c *Conn) notBegun(ctx context.Context, j Job) bool {
	state, err := do(ctx, c, func(ctx context.Context, l *link) (string, error) {
		return l.get(ctx, j.path, "org.freedesktop.systemd1.Job", "State")
	})
	return err == nil && state == "waiting"
}

// cancelJob takes a job back that has not begun.
func (c *Conn) cancelJob(ctx context.Context, j Job) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		call := l.calls.Object("org.freedesktop.systemd1", dbus.ObjectPath("/org/freedesktop/systemd1"))
		return struct{}{}, call.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CancelJob", 0, j.ID).Err
	})
	return err
}

// giveUp ends the wait for a job that systemd does not begin. A reload is taken back, for it would
// come when nobody watches any more. A start stays: an agent that is down is to run as soon as it
// can, and the start half of a restart is one.
func (c *Conn) giveUp(ctx context.Context, p PendingJob, u Unit) error {
	if p.Verb == VerbReload {
		if err := c.cancelJob(ctx, u.Job); err != nil {
			return fmt.Errorf("take back the reload of %s, which systemd does not begin: %w", p.Unit, err)
		}
	}
	blocked := &BlockedError{Unit: p.Unit}
	blocked.By, _ = c.Blockers(ctx, u)
	return &JobError{Verb: p.Verb, Unit: p.Unit, Result: ResultWaiting, Err: blocked}
}

// ActiveOf returns which of some units are active. One that cannot be asked is left out.
func (c *Conn) ActiveOf(ctx context.Context, units []string) (active []string, err error) {
	for _, name := range units {
		u, err := c.Unit(ctx, name)
		if err != nil {
			return nil, err
		}
		if u.ActiveState == "active" || u.ActiveState == "reloading" {
			active = append(active, name)
		}
	}
	return active, nil
}
