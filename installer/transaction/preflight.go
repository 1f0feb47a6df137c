package transaction

import (
	"context"
	"fmt"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// Preflight is the host before a change of version, with the checks that may refuse it. Each command
// that may lead to a transaction asks it, and so does the transaction: see preflightChecks. One
// Preflight looks at the agent once, and plans for its database once: a caller that has waited makes
// another. It changes nothing.
type Preflight struct {
	Sight    Sight          // the agent, as it was when the Preflight was made
	Database state.Database // what is done with the agent's database; known once Asked with Change
	Tree     versions.Tree  // of the version, if its files are whole on disk; else zero

	t      *transaction
	config state.Config
	req    Request
	links  []state.LinkChange
	stage  Stage
	checks []preflightCheck
	asked  map[string]bool

	recovery systemd.Unit // of the recovery at boot, once it was asked for
}

// Stage says how far a change of version has come, as the sum of what holds.
type Stage uint

const (
	Change   Stage = 1 << iota // the request names a version
	Now                        // neither a download nor a wait comes before the change
	Deep                       // a person asks what would happen, and waits until a whole database was read
	OwnUnits                   // the updater's own units are in place
	begins                     // the transaction itself asks: it may wait, and make room

	// These follow from the host and from the request.
	onDisk
	wanted
	running
	stopped
	replaces
	exchanges
	stops
)

// Close gives back what was opened.
func (p *Preflight) Close() { p.t.letGo() }

// Ask asks all checks that apply to a request at its stage and were not asked before. It returns
// the first error, which says what to do; a *failure.RefusedError stays until somebody has done
// that.
func (p *Preflight) Ask(ctx context.Context, c state.Config, r Request, stage Stage) error {
	p.config, p.req, p.stage = c, r, stage
	return p.ask(ctx, func(preflightCheck) bool { return true })
}

func (p *Preflight) ask(ctx context.Context, which func(preflightCheck) bool) error {
	for _, check := range p.checks {
		if p.asked[check.name] || check.needs&^p.holds() != 0 || !which(check) {
			continue
		}
		p.asked[check.name] = true
		if err := check.check(p, ctx); err != nil {
			return check.words(p, err)
		}
	}
	return nil
}

// holds returns the stages that hold. A check may change that for those after it: the plan for the database does.
func (p *Preflight) holds() Stage {
	holds := p.stage
	for so, is := range map[Stage]bool{
		onDisk:    p.Tree.Dir != "",
		wanted:    p.Sight.State.Wanted(),
		running:   p.Sight.Running(),
		stopped:   p.Sight.State == state.AgentStopped,
		replaces:  p.req.Replace,
		exchanges: p.Database.Plan != state.KeepDatabase && p.Database.Plan != "",
		stops:     p.Database.Stop,
	} {
		if is {
			holds |= so
		}
	}
	return holds
}

// preflightCheck is one thing that a change of version needs. It is asked once its needs hold.
type preflightCheck struct {
	name  string
	needs Stage
	check func(*Preflight, context.Context) error
	// sentence says what a failure means: its reason is %[1]w, the version %[2]s. If it is empty, the
	// check's error says so itself, and what to do.
	sentence, advice string
	// stays means that the check's error does not say what state the host is in.
	stays bool
	// standing means that the check is about the host alone, and `status` asks it before there is a change: see Standing.
	standing bool
}

// words returns the error for a check that failed. A check with a sentence of its own refuses the change.
func (c preflightCheck) words(p *Preflight, err error) error {
	now := StaysAsItIs(p.config)
	switch {
	case c.sentence != "":
		return (&failure.Error{What: fmt.Errorf(c.sentence, err, p.req.To.Short()), State: now, Fix: c.advice}).Refused()
	case c.stays:
		return fmt.Errorf("%w; %s", err, now)
	}
	return err
}
