package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// restart restarts the agent; serves means that its previous version may serve.
func (p *watching) restart(ctx context.Context, serves bool) (Outcome, error) {
	if serves && p.CanStart != nil {
		if err := p.CanStart(ctx); err != nil {
			return Outcome{}, &UnhealthyError{Unit: p.Unit, Reason: fmt.Sprintf("is not restarted, for it would not start again: %v", err),
				OldServes: true, Prevented: err}
		}
	}
	u, err := p.conn.Unit(ctx, p.Unit)
	if err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	if u.Running() {
		// systemd would stop the agent at once and wait with the start, maybe for ever.
		by, err := p.conn.Blockers(ctx, u)
		if err != nil {
			return Outcome{}, p.failure(ctx, err)
		}
		if len(by) > 0 {
			// While the host stops, all units have jobs.
			if stopping, _ := p.conn.Stopping(ctx); stopping {
				return Outcome{}, ErrHostStopping
			}
			blocked := &systemd.BlockedError{Unit: p.Unit, By: by}
			return Outcome{}, &UnhealthyError{Unit: p.Unit, Reason: fmt.Sprintf("is not restarted: %v", blocked), OldServes: serves,
				Prevented: blocked}
		}
		out, err := p.act(ctx, systemd.VerbRestart)
		if refused, ok := errors.AsType[*UnhealthyError](err); ok && systemd.IsRefused(refused.Prevented) {
			refused.OldServes = serves // nothing was stopped
		}
		return out, err
	}
	// A unit that dies again and again is stopped first: systemd may restart it once more just now, and that must not count against the new
	// version.
	if err := p.conn.Stop(ctx, p.Unit); err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	return p.act(ctx, systemd.VerbStart)
}

// act starts the new version and watches its main process. It listens from the
// start on: on a busy host this program may not get to run before somebody has
// stopped the agent again.
func (p *watching) act(ctx context.Context, verb systemd.Verb) (Outcome, error) {
	doing := "starting the agent"
	if verb == systemd.VerbRestart {
		doing = "restarting the agent"
	}
	p.Log.Info(doing, "unit", p.Unit, "dir", p.Dir)
	s := p.sampler(false)
	defer s.Close()
	if err := s.Follow(ctx); err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	if err := p.conn.ResetFailed(ctx, p.Unit); err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	job, err := p.conn.QueueJob(ctx, verb, p.Unit)
	if err == nil {
		s.IgnoreUntil(job.ID)
		err = p.conn.WaitJob(ctx, job, p.rules.startLimit)
	}
	if err != nil {
		// A job that somebody else's replaced shows nothing; the unit's state will.
		if job, ok := errors.AsType[*systemd.JobError](err); !ok || job.Result != "canceled" {
			return Outcome{}, p.failure(ctx, err)
		}
	}
	p.logWatching()
	last, v, err := p.observe(ctx, s, restartJudge(p.rules))
	out, err := p.outcome(ctx, last, v, err)
	out.Restarted = err == nil
	return out, err
}

func (p *watching) reload(ctx context.Context) (Outcome, error) {
	s := p.sampler(true)
	defer s.Close()
	before, err := s.sample(ctx)
	if err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	p.Log.Info("reloading the agent", "unit", p.Unit, "dir", p.Dir)
	j := reloadJudge(p.rules, before)
	s.sights = &sights{proc: s.proc, group: before.unit.ControlGroup, dir: p.Dir, old: j.old}
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go s.sights.watch(looking)
	s.reload = p.startReload(ctx)
	p.logWatching()
	last, v, err := p.observe(ctx, s, j)
	stop()
	if v.kind == needsRestart && systemd.IsDenied(s.reload.err) {
		return Outcome{}, &UnhealthyError{Unit: p.Unit, Reason: "is not reloaded, for a policy of the host denies it: " + s.reload.err.Error(),
			OldServes: v.oldServes, Prevented: s.reload.err}
	}
	if v.kind == needsRestart {
		reason := "the agent " + v.reason
		if s.reload.err != nil {
			reason += ": " + s.reload.err.Error()
		}
		p.Log.Warn("the reload did not bring the new version; the agent has to be restarted", "unit", p.Unit, "reason", reason)
		return p.restart(ctx, v.oldServes)
	}
	return p.outcome(ctx, last, v, err)
}

func (p *watching) logWatching() {
	p.Log.Info("watching the agent", "unit", p.Unit, "dir", p.Dir, "window", p.rules.Window.Std())
}

// running watches the agent that runs.
func (p *watching) running(ctx context.Context) (Outcome, error) {
	s := p.sampler(true)
	defer s.Close()
	now, err := s.sample(ctx)
	if err != nil {
		return Outcome{}, p.failure(ctx, err)
	}
	j := restartJudge(p.rules)
	if now.main != nil && !now.main.inside {
		// The old version, perhaps in the middle of handing over.
		j = reloadJudge(p.rules, now)
	}
	j.baseline = now.unit.NRestarts
	last, v, err := p.observe(ctx, s, j)
	if v.kind == needsRestart {
		v.kind = unhealthy
	}
	return p.outcome(ctx, last, v, err)
}

func (p *watching) startReload(ctx context.Context) reloading {
	job, err := p.conn.QueueJob(ctx, systemd.VerbReload, p.Unit)
	if err != nil {
		return reloading{status: reloadFailed, err: err}
	}
	done := make(chan error, 1)
	go func() { done <- p.conn.WaitJob(ctx, job, p.rules.startLimit) }()
	return reloading{id: job.ID, done: done, status: reloadPending}
}

func (p *watching) sampler(group bool) *sampler {
	return &sampler{Listener: p.conn.Listen(p.Unit), conn: p.conn, unit: p.Unit, proc: procfs.Host(), dir: p.Dir, group: group}
}

// observe samples until the judge has decided.
func (p *watching) observe(ctx context.Context, s *sampler, j *judge) (sample, verdict, error) {
	if p.ReadyURL != "" {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		go s.ready.run(asking, p.ReadyURL)
	}
	hurry, progressed := time.Now(), time.Time{}
	for {
		now, err := s.sample(ctx)
		if err != nil {
			return sample{}, verdict{}, err
		}
		if p.Looked != nil {
			p.Looked()
		}
		restarts := j.restarts
		v := j.observe(now)
		if v.kind != pending {
			return now, v, nil
		}
		if j.restarts != restarts {
			p.Log.Info("somebody else restarted or reloaded the agent; its watch begins again", "unit", p.Unit)
			hurry = now.now
		}
		if p.Progress != nil && now.now.Sub(progressed) >= progressEvery {
			progressed = now.now
			p.Progress(Glance{Agent: describe(now.unit), Left: j.left()})
		}
		// Often after something happened and until it is clear which process to watch.
		pause := 200 * time.Millisecond
		if now.now.Sub(hurry) < 3*time.Second || !j.settled() {
			pause = 25 * time.Millisecond
		}
		s.Wait(ctx, pause)
		if ctx.Err() != nil {
			return sample{}, verdict{}, ctx.Err()
		}
	}
}

func (p *watching) outcome(ctx context.Context, last sample, v verdict, err error) (Outcome, error) {
	switch {
	case err != nil:
		return Outcome{}, p.failure(ctx, err)
	case v.kind == held:
		return Outcome{MainPID: last.unit.MainPID}, nil
	case v.kind == hostStopping:
		return Outcome{}, ErrHostStopping
	}
	u := &UnhealthyError{Unit: p.Unit, Reason: v.reason, OldServes: v.oldServes, Stopped: v.stopped, NeverBegan: v.neverBegan}
	return Outcome{}, u.blaming(last.unit)
}

// blaming blames a limit of the unit that ends an agent of any version.
func (e *UnhealthyError) blaming(unit systemd.Unit) *UnhealthyError {
	if limit := unit.EndingLimit(); limit != "" && e.Prevented == nil && !e.Stopped {
		e.Reason += "; " + limit
		e.Prevented = errors.New(limit)
	}
	return e
}

// failure explains an error. An error means nothing if the host is shutting down, when jobs are cancelled, processes get SIGTERM and
// connections break.
func (p *watching) failure(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if stopping, _ := p.conn.Stopping(ctx); stopping {
		return ErrHostStopping
	}
	if job, ok := errors.AsType[*systemd.JobError](err); ok {
		u := &UnhealthyError{Unit: p.Unit, Reason: "did not start: " + p.explain(ctx, job)}
		now, err := p.conn.Unit(ctx, p.Unit)
		if systemd.IsPrevented(job) || err == nil && awaitsStop(job, now) {
			u.Prevented = job
		}
		u.NeverBegan = err == nil && now.NeverBegan()
		return u.blaming(now)
	}
	return fmt.Errorf("watch %s: %w", p.Unit, err)
}

// awaitsStop reports whether a job took too long because the process before it has not ended yet.
func awaitsStop(job *systemd.JobError, u systemd.Unit) bool {
	return job.Result == systemd.ResultUnfinished && u.ActiveState == "deactivating"
}

// explain adds the end of the process to a job's bare "failed".
func (p *watching) explain(ctx context.Context, job *systemd.JobError) string {
	u, err := p.conn.Unit(ctx, p.Unit)
	if err == nil && job.Result == systemd.ResultDependency {
		return p.explainNeeds(ctx, u, job)
	}
	if job.Err != nil || err != nil || u.Exit.Code == 0 {
		return job.Error()
	}
	return fmt.Sprintf("it %v; %v", u.Ended(), job)
}

// explainNeeds adds the needed units that are down to a job's bare "dependency".
func (p *watching) explainNeeds(ctx context.Context, u systemd.Unit, job *systemd.JobError) string {
	var down []string
	for _, need := range u.Ties.Needs {
		if needed, err := p.conn.Unit(ctx, need.Unit); err == nil && needed.ActiveState != "active" {
			down = append(down, fmt.Sprintf("%s (%s=) is %s", need.Unit, need.Setting, needed.ActiveState))
		}
	}
	if len(down) == 0 {
		return job.Error()
	}
	return fmt.Sprintf("%s needs a unit that did not start: %s; %v", p.Unit, strings.Join(down, ", "), job)
}

// describe returns a unit in a few words.
func describe(u systemd.Unit) string {
	text := fmt.Sprintf("%s (%s)", u.ActiveState, u.SubState)
	if u.MainPID > 0 {
		text += fmt.Sprintf(", PID %d", u.MainPID)
	}
	return text
}
