package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/webclient"
)

// Status of find is asked for no longer than this: status must answer.
const statusPatience = 3 * time.Second

// StatusOptions are the flags of status.
type StatusOptions struct {
	Offline bool // do not ask find
}

// Status reports on the host. It takes no lock, writes nothing and works
// without a network: the desired version is then the last one heard, with the
// time when.
func (i *Installer) Status(ctx context.Context, opts StatusOptions) (view.Status, error) {
	s := i.survey()
	defer s.Close()
	return i.report(ctx, s, opts, true)
}

// report is Status; deep is for a person who asks, and not for each run of the timer.
func (i *Installer) report(ctx context.Context, s *survey.Survey, opts StatusOptions, deep bool) (view.Status, error) {
	c, err := s.Config()
	if errors.Is(err, os.ErrPermission) {
		if i.Machine.Host.Paths.RunDir != "" {
			err = fmt.Errorf("%w; everybody may read %s", err, i.Machine.Host.Paths.Summary())
		}
		return view.Status{}, err
	}
	q := decision.Question{Deep: deep}
	desired := i.desired(ctx, c, opts, &q)
	verdict := i.judge(ctx, s, c, &q)
	agent, blind := s.Agent(ctx)
	own, _ := s.Own(ctx) // a failed look is a condition
	return view.Of(view.Reported{
		Survey: s, Verdict: verdict, Policy: q.Policy, Desired: desired, Updater: i.Version, Redact: webclient.Redact,
		Agent: view.AgentOf(agent, blind), Own: own, JitterUntil: q.Jitter,
	}), nil
}

// judge asks the checks. It fills in the parts of the question that are not in the survey.
func (i *Installer) judge(ctx context.Context, s *survey.Survey, c state.Config, q *decision.Question) decision.Verdict {
	if w := s.Ticks().Waiting; w != nil && w.Live(i.Processes) {
		q.Jitter = &w.Until
	}
	if t, err := s.Transaction(); t == nil && err == nil {
		q.VersionsLeft = i.obtainer().oldVersionsLeft(c)
	}
	q.Exposed, q.Unexamined = exposed(c.Spec)
	q.FollowsAnother = followsAnother(i, s, c)
	q.Policy = i.ownerRules().aboutPolicy(c)
	last := state.LoadAnyAnswer(i.Machine.Host.Paths.LastAnswer())
	q.Shared, q.LastAnswer = last.Shared, last.Time
	if s.Ticks().Unstable != nil {
		q.Policy.Back = i.ownerRules().refusesBack(c)
	}
	q.Back = func(ctx context.Context) error {
		_, err := i.foreseeRollback(ctx, c, RollbackOptions{})
		return err
	}
	q.Refuses = func(ctx context.Context) (why, err error) { return transaction.Standing(ctx, i.Machine, c) }
	q.Closed = func(ctx context.Context) (string, error) {
		v, err := s.Version()
		if err != nil || !v.Whole || v.Unusable != nil {
			return "", nil // another check's
		}
		return closedPrograms(ctx, i.Machine.Host.Paths.LinkDir, v.Tree)
	}
	return decision.Judge(ctx, s, *q)
}

// desired returns what find wants, from its answer now or from its last one.
func (i *Installer) desired(ctx context.Context, c state.Config, opts StatusOptions, q *decision.Question) (d view.Desired) {
	spec := c.Spec
	if err := i.Machine.Host.ResolveProxy(&spec); err != nil {
		return d // never enabled, and nothing to ask
	}
	d.Proxy, d.Group, q.Group = spec.Proxy, spec.Group, spec.Group
	answer, err := find.Answer{}, errors.New("the cluster was not asked")
	if !opts.Offline {
		ctx, cancel := context.WithTimeout(ctx, statusPatience)
		defer cancel()
		if answer, err = i.finder().askQuietly(ctx, spec); err != nil {
			d.Error = err.Error()
		}
	}
	q.Answered, q.AskError = err == nil, d.Error
	a := i.finder().lastAnswer(spec, answer)
	if err != nil {
		a = i.finder().recall(spec)
	}
	if a == nil {
		return d
	}
	d.Jitter, d.CheckedAt = &a.Jitter, &a.Time
	q.CheckedAt, q.NoGroup = &a.Time, a.GroupUnknown
	if a.Version != "" { // else find names no version
		d.Version, d.Edition = a.Version, string(a.Edition)
		q.Desired = a.Release
	}
	return d
}
