package systemd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// waitLimit is how long a job of ours waits for jobs of other units that were there before, or that cannot
// be named. Such a wait says something about the host: systemd begins a job at once if it can.
const waitLimit = 15 * time.Second

// openPatience is how long a job waits for others that came with it and have no time limit of their own.
const openPatience = 5 * time.Minute

// ResultWaiting is the result of a job that systemd has not begun: it waits for other units.
const ResultWaiting = "waiting"

// Blockers names the units whose jobs would keep a job of u waiting: u is ordered after them, and they have
// not been started, or stopped, to the end; or they are ordered after u and are being stopped. A restart
// would stop u and wait with the start.
func (c *Conn) Blockers(ctx context.Context, u Unit) ([]string, error) {
	jobs, err := c.ahead(ctx, u.Name, VerbStart)
	return namesOf(jobs), err
}

// ahead are the jobs of other units that systemd finishes before it begins a job of a unit.
func (c *Conn) ahead(ctx context.Context, unit string, verb Verb) ([]sdbus.JobStatus, error) {
	var order ordering
	jobs, err := do(ctx, c, func(ctx context.Context, l *link) ([]sdbus.JobStatus, error) {
		p, err := l.properties(ctx, unitPath(unit))
		if err != nil {
			return nil, err
		}
		order = ordering{after: property[[]string](p, "After"), before: property[[]string](p, "Before")}
		return l.api.ListJobsContext(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs of systemd: %w", err)
	}
	return slices.DeleteFunc(jobs, func(j sdbus.JobStatus) bool { return j.Unit == unit || !order.comesFirst(j, verb) }), nil
}

// ordering holds a unit's order among others.
type ordering struct {
	after  []string // it is started after these, and stopped before them
	before []string
}

// comesFirst reports whether systemd finishes a job of another unit before one of this unit. A stop comes
// before any other job; of two stops, the one of the unit that is started later. A restart is a stop until
// the unit is down, and a start from then on.
func (o ordering) comesFirst(j sdbus.JobStatus, verb Verb) bool {
	switch {
	case j.JobType == "nop":
		return false
	case slices.Contains(o.before, j.Unit):
		return isStop(Verb(j.JobType))
	}
	return !isStop(verb) && slices.Contains(o.after, j.Unit)
}

func isStop(v Verb) bool { return v == VerbStop || v == VerbRestart }

func namesOf(jobs []sdbus.JobStatus) (names []string) {
	for _, j := range jobs {
		names = append(names, j.Unit)
	}
	return names
}

// A queue is the wait of one of our jobs for jobs of other units.
type queue struct {
	begun    time.Time     // zero: the job does not wait
	patience time.Duration // for the jobs that it waits for now
	since    time.Time     // when patience was last changed
	reported bool          // to Waits
}

// look reports whether a pending job waits for others. It returns an error if the job has waited too
// long; then the job was taken back, or continues without anybody who waits for it.
func (q *queue) look(ctx context.Context, c *Conn, p PendingJob, u Unit) (waits bool, err error) {
	// The start of a unit that is being stopped waits for nothing but that unit.
	if u.ActiveState == "deactivating" || !c.notBegun(ctx, u.Job) {
		*q = queue{reported: q.reported}
		return false, nil
	}
	now := time.Now()
	if q.begun.IsZero() {
		q.begun = now
	}
	verb, err := c.JobVerb(ctx, u.Job)
	if err != nil {
		return true, nil // it may be over by now
	}
	jobs, err := c.ahead(ctx, p.Unit, verb)
	if err != nil && now.Sub(q.begun) <= JobCap {
		return true, nil
	}
	if patience := c.patience(ctx, p, jobs); patience != q.patience {
		q.patience, q.since = patience, now
	}
	blocked := &BlockedError{Unit: p.Unit, By: namesOf(jobs)}
	if now.Sub(q.since) > q.patience && verb == VerbStart && c.withdraw(ctx, p, u, jobs) {
		return true, nil
	}
	switch {
	case now.Sub(q.since) > q.patience, now.Sub(q.begun) > JobCap:
		return true, c.giveUp(ctx, p, u.Job, verb, blocked)
	case now.Sub(q.begun) > waitLimit && !q.reported && len(jobs) > 0:
		q.reported = true
		if c.Waits != nil {
			c.Waits(blocked)
		}
	}
	return true, nil
}

// patience returns how long a job waits for others before its caller gives up. The agent is down, or
// serves until its turn comes, for as long as the other jobs take, no matter who asked for the job: to give
// it up and to ask again gains nothing, and systemd ends jobs with a time limit. But an earlier start
// may belong to the unit that runs this program, such as the last stage of cloud-init, and end only
// after it; and an agent that still serves can be reloaded now or later.
func (c *Conn) patience(ctx context.Context, p PendingJob, ahead []sdbus.JobStatus) time.Duration {
	if p.Verb == VerbReload || len(ahead) == 0 {
		return waitLimit
	}
	patience := JobCap
	for _, j := range ahead {
		stops := isStop(Verb(j.JobType))
		if j.Id < p.ID && !stops {
			return waitLimit // systemd numbers jobs as they come
		}
		u, err := c.Unit(ctx, j.Unit)
		if err != nil || stops && u.StopTimeout == Forever || !stops && u.StartTimeout == Forever {
			patience = openPatience
		}
	}
	return patience
}

// notBegun reports whether a pending job still waits for others.
func (c *Conn) notBegun(ctx context.Context, j Job) bool {
	state, err := do(ctx, c, func(ctx context.Context, l *link) (string, error) {
		return l.get(ctx, j.path, "org.freedesktop.systemd1.Job", "State")
	})
	return err == nil && state == "waiting"
}

// cancelJob takes a job back. Processes that a start has begun continue.
func (c *Conn) cancelJob(ctx context.Context, j Job) error {
	_, err := do(ctx, c, func(ctx context.Context, l *link) (struct{}, error) {
		call := l.calls.Object("org.freedesktop.systemd1", dbus.ObjectPath("/org/freedesktop/systemd1"))
		return struct{}{}, call.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CancelJob", 0, j.ID).Err
	})
	return err
}

// withdraw takes back the starts that our start of u brought with it, of units that u wants and does not need, if it waits for nothing
// else: a stopped agent would stay down for as long as they hang. Their processes continue, and systemd begins the start of u. A start
// of a mount is not taken back: an agent without its data begins as a new one.
func (c *Conn) withdraw(ctx context.Context, p PendingJob, u Unit, jobs []sdbus.JobStatus) bool {
	of, err := do(ctx, c, func(ctx context.Context, l *link) (properties, error) { return l.properties(ctx, unitPath(p.Unit)) })
	wants := property[[]string](of, "Wants")
	keeps := func(j sdbus.JobStatus) bool {
		needed := slices.ContainsFunc(u.Ties.Needs, func(n Need) bool { return n.Unit == j.Unit }) || strings.HasSuffix(j.Unit, ".mount")
		return needed || !slices.Contains(wants, j.Unit) || j.Id < p.ID || isStop(Verb(j.JobType))
	}
	if err != nil || len(jobs) == 0 || slices.ContainsFunc(jobs, keeps) {
		return false
	}
	for _, j := range jobs {
		if c.cancelJob(ctx, Job{ID: j.Id}) != nil {
			return false
		}
	}
	if c.Withdrew != nil {
		c.Withdrew(p.Unit, namesOf(jobs))
	}
	return true
}

// giveUp ends the wait for a job that systemd does not begin. It takes back a reload, a stop and a
// restart: they would run when nobody watches any more. A start stays, even if it was a restart
// before: an agent that is down has to run as soon as it can.
func (c *Conn) giveUp(ctx context.Context, p PendingJob, j Job, verb Verb, blocked *BlockedError) error {
	if verb != VerbStart {
		if err := c.cancelJob(ctx, j); err != nil {
			return fmt.Errorf("take back the %s of %s, which systemd does not begin: %w", verb, p.Unit, err)
		}
	}
	return &JobError{Verb: p.Verb, Unit: p.Unit, Result: ResultWaiting, Err: blocked}
}

// ActiveOf returns the active ones of some units, if they may start another unit that ends (Ties.Starters).
func (c *Conn) ActiveOf(ctx context.Context, units []string) (active []string, err error) {
	for _, name := range units {
		u, err := c.Unit(ctx, name)
		if err != nil {
			return nil, err
		}
		if (u.ActiveState == "active" || u.ActiveState == "reloading") && !u.startsOnChange() {
			active = append(active, name)
		}
	}
	return active, nil
}

// startsOnChange reports whether a unit is a .path unit that starts another one only for a change of a file. When the other
// one ends, systemd checks whether the files of PathExists=, PathExistsGlob= and DirectoryNotEmpty= exist, and starts it
// again; for PathChanged= and PathModified= it waits for the next change.
func (u Unit) startsOnChange() bool {
	others := func(kind string) bool { return kind != "PathChanged" && kind != "PathModified" }
	return len(u.Watches) > 0 && !slices.ContainsFunc(u.Watches, others)
}
