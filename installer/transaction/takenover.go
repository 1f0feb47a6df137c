package transaction

import (
	"context"
	"fmt"
	"slices"

	"teleport-update/installer/state"
	"teleport-update/ospackage"
)

// TakeOver removes packages that are here beside an active version: those that
// could not be removed at their time, or that came since (enable step 3). It is a
// transaction that begins with the version proven. With replace, another updater that
// came since goes, too.
func (m *Machine) TakeOver(ctx context.Context, c state.Config, packages []state.Package, replace bool) error {
	if replace = replace && m.Host.OthersHere(); len(packages) == 0 && !replace {
		return nil
	}
	for _, p := range packages {
		if err := ospackage.Package(p).Locked(); err != nil {
			m.Host.Log.Warn("the package cannot be removed now; a later run tries again", "package", p.String(), "error", err)
			c.Status.PackagesLeft = []state.PackageLeft{leftBehind(p, err, c.Status.PackagesLeft, m.Timestamp())}
			return c.Save(m.Host.Paths.Config())
		}
	}
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		return err
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	t := &transaction{m: m, agent: agent}
	defer t.letGo()
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	j := m.newJournal(ctx, agent)
	j.From, j.To, j.Agent = new(TreeOf(tree)), TreeOf(tree), sight.asFound()
	j.Unit.Path, j.Database.Plan, j.Packages.Found = m.Host.Paths.Unit(), state.KeepDatabase, packages
	j.Replaces = replace
	if err := m.suitRescuer(ctx, j); err != nil {
		return fmt.Errorf("%w; %s", err, StaysAsItIs(c))
	}
	t.j = newOpenJournal(m.Host.Paths.Journal(), j)
	if replace {
		if err := t.holdOthers(ctx, state.LockPatience); err != nil {
			return err
		}
	}
	if err := t.enterProven(); err != nil {
		return err
	}
	return t.finish(context.WithoutCancel(ctx))
}

// TakeOverLeft tries again what could not be removed at its time.
func (m *Machine) TakeOverLeft(ctx context.Context, c *state.Config) error {
	due := func(l state.PackageLeft) bool {
		wait := l.NextAttempt.Sub(m.Now())
		return wait <= 0 || wait > removeAgain // clocks jump
	}
	if !slices.ContainsFunc(c.Status.PackagesLeft, due) {
		return nil
	}
	packages := m.AgentPackages(ctx)
	if len(packages) == 0 {
		c.Status.PackagesLeft = nil
		return c.Save(m.Host.Paths.Config())
	}
	if err := m.TakeOver(ctx, *c, packages, false); err != nil {
		return err
	}
	now, err := m.FreshConfig()
	if err == nil {
		*c = now
	}
	return err
}
