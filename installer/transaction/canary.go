package transaction

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/systemd/canary"
)

// A canary shows whether systemd would start the agent, in systemd's words: systemd starts a program that prints its version, with the
// settings of the agent's unit, and the agent runs on. The other checks ask what a canary cannot show: other units, conditions, folders
// and files that the agent alone needs, and the effects of a stop.

// trier starts a unit that exists for a trial alone, and removes it.
type trier interface {
	Try(ctx context.Context, text func(output string) []byte) (systemd.Tried, error)
}

// tries reports whether a preflight starts canaries: one that only looks starts nothing.
func (p *Preflight) tries() bool { return p.stage&(begins|Deep) != 0 }

// agentTried tries the agent that runs: an undoing goes back to it.
func agentTried(p *Preflight, ctx context.Context) error {
	if !p.tries() {
		return nil
	}
	return tryNow(ctx, p.t.m, p.t.agent, p.Sight)
}

// recoveryTried tries the recovery at boot, whose unit may have drop-ins of others.
func recoveryTried(p *Preflight, ctx context.Context) error {
	u := p.recovery
	if !p.tries() || u.ExecStart == "" {
		return nil
	}
	s, err := p.t.m.Host.AgentUnit().RecoveryService()
	if err == nil {
		err = try(ctx, p.t.m, p.t.agent, u, s, u.ExecStart)
	}
	if failure.Is[*failure.RefusedError](err) {
		why := failure.Unchanged(uncounted, err).To(showsSettings, s.Name)
		why.State = StaysAsItIs(p.config)
		return why.Refused()
	}
	return err
}

// tryNow tries a start of the agent by its unit as it is now.
func tryNow(ctx context.Context, m *Machine, agent Agent, sight Sight) error {
	s, err := tryAgent(ctx, m, agent, sight)
	if failure.Is[*failure.RefusedError](err) {
		return failure.Unchanged("the agent, which runs, would not start again as it is: %w", err).To(showsSettings, s.Name).Refused()
	}
	return err
}

const showsSettings = "`systemctl cat %s` shows the settings"

// versionTried tries the version to come by the unit that it brings.
func versionTried(p *Preflight, ctx context.Context) error {
	if !p.tries() {
		return nil
	}
	unit, err := p.t.m.Host.UnitOf(p.Tree)
	if err != nil {
		return err
	}
	s, err := p.t.m.Host.AgentUnit().ServiceWith(unit)
	if err == nil {
		err = try(ctx, p.t.m, p.t.agent, p.Sight.Unit, s, p.Tree.Binary(host.AgentName))
	}
	if failure.Is[*failure.RefusedError](err) {
		return failure.Unchanged("version %s could not be started: %w", p.req.To.Short(), err).To(showsSettings, s.Name).Refused()
	}
	return err
}

// tryBefore tries the version before by its unit, once more: a user, a folder or a file that its start needs may have gone since the
// preflight.
func (t *transaction) tryBefore(ctx context.Context) error {
	if t.j.From == nil || !t.j.Unit.Regular {
		return nil
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	s, err := t.m.Host.AgentUnit().ServiceWith(t.j.Unit)
	if err != nil {
		return err
	}
	return try(ctx, t.m, t.agent, sight.Unit, s, filepath.Join(t.j.From.ProgramsDir(), "bin", host.AgentName))
}

// startsWithoutPackages tries the agent's next start once the packages that brought it are gone: their removal may have taken a file
// away that the agent needs, and the process that runs has it open.
func (t *transaction) startsWithoutPackages(ctx context.Context) error {
	if len(t.j.Packages.Found) == 0 {
		return nil
	}
	sight, err := t.agent.Look(ctx)
	if err != nil || !sight.Running() {
		return nil // nobody can say, or the start that comes shows it
	}
	// A proven version does not go back, and the room counts for the agent.
	t.m.warn(t.dropReserve(ctx), "room in the folder of the agent's database stays reserved until the next change of version")
	err = t.m.checkStartsAgain(ctx, t.agent, sight, t.j.Database.Path)
	if err == nil {
		_, err = tryAgent(ctx, t.m, t.agent, sight)
	}
	if failure.Is[*failure.RefusedError](err) {
		return &failure.NeedsPersonError{
			Err: fmt.Errorf("the agent's package is removed, and the agent, which runs, would not start again: %v", err)}
	}
	return wrap(err, "the agent's package is removed, and the agent could not be tried since: %w")
}

// tryAgent tries a start of the agent by its unit, and returns what it started. A unit that starts another program says nothing about
// the agent's.
func tryAgent(ctx context.Context, m *Machine, agent Agent, sight Sight) (s canary.Service, err error) {
	if filepath.Base(sight.ExecStart) != host.AgentName {
		return s, nil
	}
	if s, err = m.Host.AgentUnit().Service(); err == nil {
		err = try(ctx, m, agent, sight.Unit, s, sight.ExecStart)
	}
	return s, err
}

// try starts a program with the settings of a service, whose unit is u. A canary that does not end well is a *failure.RefusedError,
// unless something that comes before the service may bring what the canary lacks.
func try(ctx context.Context, m *Machine, agent Agent, u systemd.Unit, s canary.Service, program string) error {
	tried, err := agent.Try(ctx, func(output string) []byte { return canary.Unit(s, canary.Trial{Program: program, Output: output}) })
	switch {
	case err != nil:
		return &untriedError{fmt.Errorf("try a start of %s: %w", s.Name, err)}
	case tried.Well() && strings.TrimSpace(tried.Output) != "":
		return nil
	}
	why := failure.Refuse("systemd tried %s with the settings of %s, and it %s", program, s.Name, tried.Why())
	brought, err := host.MayBring(ctx, u, agent.Unit)
	if brought {
		m.Host.Log.Warn("a start was tried and failed; the units that systemd starts first may bring what it lacks", "unit", s.Name, "error", why)
		return nil
	}
	if err != nil {
		return err
	}
	return why
}

// untriedError says that a canary could not be made.
type untriedError struct{ error }

func (e *untriedError) Unwrap() error { return e.error }
