package transaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/ospackage"
)

// removeAgain is how long the timer leaves a package alone if its own scripts, or packages that
// depend on it, keep it on the host.
const removeAgain = 24 * time.Hour

// AgentPackages lists the packages to take over. If they are not known, that does not keep a host
// on an old version. Only the usual folders can be a package's.
func (m *Machine) AgentPackages(ctx context.Context) []state.Package {
	if !m.Host.Usual() {
		return nil
	}
	packages, err := ospackage.Installed(ctx)
	m.warn(err, "it is not known whether a package of the agent is installed; it is left alone")
	var all []state.Package
	for _, p := range packages {
		all = append(all, state.Package(p))
	}
	return all
}

func (t *transaction) packages() takingOver { return takingOver{t} }

// takeOver removes the packages of an open transaction whose version is proven. The agent is not
// stopped for it, and needs nothing of theirs any more. takeOver returns the packages that cannot
// be removed now: a later run tries again, and the version counts all the same.
func (o takingOver) takeOver(ctx context.Context, known []state.PackageLeft) (left []state.PackageLeft, err error) {
	if len(o.t.j.Packages.Found) == 0 {
		return known, nil
	}
	if !o.t.j.Packages.Noted {
		if err := o.saveFromPackages(ctx); err != nil {
			o.t.m.Host.Log.Warn("the package is not removed; a later run tries again, and nothing else waits for it",
				"package", host.DescribePackages(o.t.j.Packages.Found), "error", err)
			for _, p := range o.t.j.Packages.Found {
				left = append(left, leftBehind(p, err, known, o.t.m.Timestamp()))
			}
			return left, nil
		}
	}
	installed, err := ospackage.Installed(ctx)
	if err != nil {
		o.t.m.Host.Log.Warn("it is not known whether a package of the agent is installed", "error", err)
		for _, p := range o.t.j.Packages.Found {
			installed = append(installed, ospackage.Package(p))
		}
	}
	for _, p := range o.t.j.Packages.Found {
		// Its version may have changed meanwhile.
		n := slices.IndexFunc(installed, func(q ospackage.Package) bool { return q.Kind == p.Kind && q.Name == p.Name })
		if n < 0 {
			o.t.m.warn(ospackage.Package(p).Settle(ctx, o.fence()),
				"the package is removed, but dpkg did not finish; apt may ask for `dpkg --configure -a`", "package", p.String())
			continue
		}
		if err := o.purge(ctx, installed[n]); err != nil {
			left = append(left, leftBehind(state.Package(installed[n]), err, known, o.t.m.Timestamp()))
		}
	}
	if err := o.putBackKept(); err != nil {
		return nil, err
	}
	if len(left) == 0 {
		if err := o.removeOwn(); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func (o takingOver) purge(ctx context.Context, p ospackage.Package) error {
	o.t.m.Host.Log.Info("removing the package that brought the agent; the agent goes on running, its configuration and data stay",
		"package", p.String())
	err := p.Purge(ctx, o.fence())
	switch locked, isLocked := errors.AsType[*ospackage.LockedError](err); {
	case isLocked:
		o.t.m.Host.Log.Warn("the package cannot be removed now; a later run tries again, and nothing else waits for it", "package", p.String(),
			"holder", locked.Holder)
	case err != nil:
		o.t.m.Host.Log.Warn("the package could not be removed; a later run tries again, and nothing else waits for it", "package", p.String(),
			"error", err)
	default:
		o.t.m.Host.Log.Info("the package is removed", "package", p.String())
	}
	return err
}

// fence keeps a removal from what is the updater's now.
func (o takingOver) fence() ospackage.Fence {
	return ospackage.Fence{
		Empty: []string{o.t.m.Host.Paths.LinkDir, o.t.m.Host.Paths.UnitDir, layout.ConfigDir},
		Gone:  []string{o.t.m.Host.Paths.DataDir},
	}
}

func leftBehind(p state.Package, err error, known []state.PackageLeft, now time.Time) state.PackageLeft {
	since := now
	for _, k := range known {
		if k.Kind == p.Kind && k.Name == p.Name {
			since = k.Since
		}
	}
	l := state.PackageLeft{Package: p, Since: since, Error: err.Error()}
	if !failure.Is[*ospackage.LockedError](err) {
		l.NextAttempt = now.Add(removeAgain)
	}
	return l
}

// allLeft returns the entries of packages of which none can be removed, because one is locked. The others keep what is known of them.
func allLeft(packages []state.Package, locked state.Package, err error, known []state.PackageLeft,
	now time.Time) (left []state.PackageLeft) {
	for _, p := range packages {
		entry := leftBehind(p, err, known, now)
		for _, k := range known {
			if p != locked && k.Kind == p.Kind && k.Name == p.Name {
				entry = k
			}
		}
		left = append(left, entry)
	}
	return left
}

// saveFromPackages records, before the first package is touched, what is needed to finish the
// removal after a cut.
func (o takingOver) saveFromPackages(ctx context.Context) error {
	var own []string
	for _, p := range o.t.j.Packages.Found {
		files, err := ospackage.Package(p).Files(ctx)
		o.t.m.warn(err, "the package's files are not known; some of them may stay", "package", p.String())
		for _, f := range files {
			if dir := filepath.Dir(f); dir == o.t.m.Host.Paths.LinkDir || dir == o.t.m.Host.Paths.UnitDir {
				own = append(own, f)
			}
		}
		own = append(own, linksTo(files, o.t.m.Host.Paths.LinkDir)...)
	}
	kept, err := o.saveAgentFiles(ctx)
	if err != nil {
		return err
	}
	return o.t.j.journalPackages(own, kept, o.keepPackageVersion(ctx))
}

// linksTo returns the links in a folder that lead to files of a package: the package's script made
// them, so no database of packages knows them.
func linksTo(files []string, dir string) (links []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		if slices.Contains(files, filepath.Clean(target)) {
			links = append(links, path)
		}
	}
	return links
}

// removeOwn removes the packages' files that their removal could not see.
func (o takingOver) removeOwn() error {
	for _, path := range o.t.j.Packages.Own {
		info, err := os.Lstat(path)
		if err != nil || path == o.t.m.Host.Paths.Unit() {
			continue
		}
		if _, err := os.Stat(path); !info.Mode().IsRegular() && (info.Mode()&os.ModeSymlink == 0 || !errors.Is(err, fs.ErrNotExist)) {
			continue // a link of ours now, or one that leads somewhere
		}
		if err := durable.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// keepPackages adds the packages to the record of the host as it was before, which uninstall reads.
func (o takingOver) keepPackages() error {
	if !o.t.j.Packages.Noted || !o.t.m.Host.HasOriginals() {
		return nil
	}
	b, err := o.t.m.Host.Originals()
	if err != nil {
		return err
	}
	b.Packages = o.t.j.Packages.Found
	return o.t.m.Host.WriteOriginals(b)
}

// TakeOver removes packages that are here beside an active version: packages that could not be
// removed at their time, or that came since (enable step 3). It is a transaction that begins with
// the version proven. With replace, another updater that came since goes, too.
func (m *Machine) TakeOver(ctx context.Context, c state.Config, packages []state.Package, replace bool) error {
	if replace = replace && m.Host.OthersHere(); len(packages) == 0 && !replace {
		return nil
	}
	for _, p := range packages {
		if err := ospackage.Package(p).Locked(); err != nil {
			m.Host.Log.Warn("the package cannot be removed now; a later run tries again", "package", p.String(), "error", err)
			c.Status.PackagesLeft = allLeft(packages, p, err, c.Status.PackagesLeft, m.Timestamp())
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

// TakeOverLeft tries again to remove the packages that could not be removed at their time.
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
