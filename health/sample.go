package health

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// sampler takes samples of one unit.
type sampler struct {
	*systemd.Listener
	conn   *systemd.Conn
	unit   string
	proc   procfs.FS
	dir    string  // resolved: /proc shows paths without links
	group  bool    // look at all processes of the unit
	sights *sights // nil: there are no looks between samples
	reload reloading
	ready  prober // asks nothing without a ready URL

	unitRead systemd.Unit // by the last sample
}

// sample reads the processes first and systemd's view after them: a process that
// is gone has been reported to systemd by then, or will be seen gone again. It
// costs systemd about 1.5 ms.
func (s *sampler) sample(ctx context.Context) (sample, error) {
	if err := s.Follow(ctx); err != nil {
		return sample{}, err
	}
	began := time.Now()
	next := sample{reload: s.reload.poll()}
	if s.group {
		if s.unitRead.Name == "" {
			// The unit's processes are known only now.
			if err := s.readUnit(ctx, &next); err != nil {
				return sample{}, err
			}
		}
		next.group = groupOf(s.proc, s.unitRead.ControlGroup, s.dir)
		next.pidFile = procfs.PIDFile(s.unitRead.PIDFile)
		next.sighted = s.sights.all()
	}
	if err := s.readUnit(ctx, &next); err != nil {
		return sample{}, err
	}
	if p := s.proc.Process(int(next.unit.MainPID)); p != nil {
		next.main = new(seen(*p, s.dir))
	}
	if err := s.hidden(next); err != nil {
		return sample{}, err
	}
	if err := s.CatchUp(ctx); err != nil {
		return sample{}, err
	}
	next.otherJobs = s.OtherJobs(s.reload.id)
	next.ready = s.ready.answer()
	next.now = time.Now()
	next.took = next.now.Sub(began)
	return next, nil
}

// hidden returns a *HiddenError if the judge needs a process that may not be looked at: it would count as dead. A process that ended since
// is not hidden.
func (s *sampler) hidden(now sample) error {
	if now.main == nil && now.unit.MainPID != 0 {
		if why := s.proc.Hidden(int(now.unit.MainPID)); why != nil {
			return &HiddenError{Unit: s.unit, Why: why}
		}
	}
	if s.group && len(now.group) == 0 {
		if why := s.proc.HiddenIn(now.unit.ControlGroup); why != nil {
			return &HiddenError{Unit: s.unit, Why: why}
		}
	}
	return nil
}

// readUnit reads whether the host stops after the unit's state: so a unit that ends because of that does not count as dead.
func (s *sampler) readUnit(ctx context.Context, next *sample) error {
	u, err := s.conn.Unit(ctx, s.unit)
	if err != nil {
		return err
	}
	s.unitRead, next.unit = u, u
	if u.JobPending {
		s.SawJob(u.Job.ID)
		verb, err := s.conn.JobVerb(ctx, u.Job)
		// The job may be over by now.
		if err == nil {
			next.stopJob = verb == systemd.VerbStop
		} else if errors.Is(err, systemd.ErrBroken) {
			return err
		}
	}
	next.stopping, err = s.conn.Stopping(ctx)
	return err
}

// reloading is a reload job that runs while samples are taken; the zero value means that there is no job.
type reloading struct {
	id     uint32
	done   <-chan error
	status reloadJob
	err    error
}

func (r *reloading) poll() reloadJob {
	if r.status == reloadPending {
		select {
		case r.err = <-r.done:
			r.status = reloadDone
			if r.err != nil {
				r.status = reloadFailed
			}
		default:
		}
	}
	return r.status
}

// sights are the processes of the new version that the old one has started, each seen at least once: a process that dies within
// milliseconds, or while systemd is busy, is not in any sample.
type sights struct {
	proc       procfs.FS
	group, dir string
	old        identity

	mu   sync.Mutex
	seen []process
}

// watch looks every few milliseconds until ctx ends. However many processes the
// agent has, it takes no more than a tenth of a processor; on a busy host, where a
// look is slow for other reasons, it still looks before an early death is over.
func (s *sights) watch(ctx context.Context) {
	const often, seldom = 5 * time.Millisecond, 50 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		s.look()
		select {
		case <-ctx.Done():
		case <-time.After(min(max(10*time.Since(began), often), seldom)):
		}
	}
}

func (s *sights) look() {
	group := groupOf(s.proc, s.group, s.dir)
	for _, p := range group {
		if p.inside && startedBy(group, p, s.old) {
			s.mu.Lock()
			if !slices.ContainsFunc(s.seen, func(q process) bool { return q.identity == p.identity }) {
				s.seen = append(s.seen, p)
			}
			s.mu.Unlock()
		}
	}
}

func (s *sights) all() []process {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}
