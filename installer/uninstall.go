package installer

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"teleport-update/internal/durable"
	"teleport-update/internal/procfs"
	"teleport-update/ospackage"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// Uninstall takes the updater off the host. The agent goes back to what the
// first enable found, which may be none; with keepAgent it stays, as plain
// files. Its configuration and its data are never touched, but for what enable's
// --token-file put there.
func (i *Installer) Uninstall(ctx context.Context, keepAgent bool) error {
	return i.inOwnUnit(ctx, SwitchRequest{Kind: switchUninstall, KeepAgent: keepAgent}, "Uninstall teleport-update")
}

func (i *Installer) uninstallLocked(ctx context.Context, c Config, conn *systemd.Conn, keepAgent bool) error {
	if c.Spec.ActiveVersion == "" {
		// All of the store goes, and nothing is put in the place of links into it.
		if err := i.checkNeverEnabled(); err != nil {
			return refuse("%s names no active version, but the agent may be ours all the same: %v; nothing was changed: "+
				"`teleport-update enable` first, then uninstall", i.Paths.Config(), err)
		}
	}
	// The timer must not repair what is being taken away.
	c.Spec.Enabled = false
	if err := c.save(i.Paths.Config()); err != nil {
		return err
	}
	if c.Spec.ActiveVersion != "" {
		// Whether it can be done at all is found out before the first link goes.
		if err := i.checkUninstall(ctx, c, keepAgent); err != nil {
			return err
		}
		j := &journal{Schema: journalSchema, ID: rand.Text(), Started: i.timestamp(), BootID: procfs.BootID(), KeepAgent: keepAgent}
		if err := j.enter(i.Paths.Journal(), uninstalling); err != nil {
			return err
		}
	}
	return i.finishUninstall(ctx, c, conn, keepAgent)
}

func (i *Installer) checkUninstall(ctx context.Context, c Config, keepAgent bool) error {
	if !keepAgent {
		b, err := i.loadBefore()
		if err == nil {
			err = i.plainUnit(ctx, &b)
		}
		return err
	}
	_, ok, err := i.active(c)
	if err == nil && !ok {
		err = fmt.Errorf("version %s is not whole on disk, so there is nothing to keep; updates are disabled, nothing else was changed: `teleport-update enable` repairs it", c.Spec.ActiveVersion)
	}
	return err
}

// finishUninstall can be cut off anywhere and begun again.
func (i *Installer) finishUninstall(ctx context.Context, c Config, conn *systemd.Conn, keepAgent bool) error {
	// Where it goes on after a cut, updates.yaml may have been lost meanwhile.
	if c.Spec.ActiveVersion != "" || exists(i.Paths.Journal()) {
		if err := i.releaseAgent(ctx, c, conn, keepAgent); err != nil {
			return err
		}
	}
	if err := i.removeUnits(ctx, conn); err != nil {
		return err
	}
	if err := durable.RemoveAll(i.Paths.Versions()); err != nil {
		return fmt.Errorf("remove the version store: %w; run the command again", err)
	}
	// Empty where no agent ever ran; anything in it is the agent's.
	_ = os.Remove(i.Paths.DataDir)
	i.Log.Info("the updater is uninstalled", "agent_kept", keepAgent)
	return nil
}

// releaseAgent makes links and unit what they are to be without the updater.
func (i *Installer) releaseAgent(ctx context.Context, c Config, conn *systemd.Conn, keepAgent bool) error {
	if keepAgent {
		return i.leavePlainFiles(ctx, c)
	}
	return i.putBackOriginal(ctx, conn)
}

// leavePlainFiles replaces the links by what they lead to.
func (i *Installer) leavePlainFiles(ctx context.Context, c Config) error {
	if err := i.checkUninstall(ctx, c, true); err != nil {
		return err
	}
	tree, _, err := i.active(c)
	if err != nil {
		return err
	}
	return versions.LeavePlainFiles(i.Paths.LinkDir, tree)
}

// putBackFiles makes links and unit what the first enable found.
func (i *Installer) putBackFiles(ctx context.Context) error {
	b, err := i.loadBefore()
	if err != nil {
		return err
	}
	if err := i.plainUnit(ctx, &b); err != nil {
		return err
	}
	if len(b.PackageUnit) > 0 && string(b.Unit.Content) == string(b.PackageUnit) {
		i.Log.Warn("the agent that was here came with a package, which is not installed again; it is left as plain files", "package", describePackages(b.Packages))
	}
	if err := i.store().RemoveLinks(i.Paths.LinkDir); err != nil {
		return fmt.Errorf("remove the links: %w", err)
	}
	if err := versions.RevertLinks(b.Links, i.Paths.Original()); err != nil {
		return fmt.Errorf("put back what the links replaced: %w", err)
	}
	if err := b.Unit.restore(); err != nil {
		return fmt.Errorf("put back the agent's unit: %w", err)
	}
	return b.removePlaced()
}

// putBackOriginal makes the host run what the first enable found.
func (i *Installer) putBackOriginal(ctx context.Context, conn *systemd.Conn) error {
	if err := i.putBackFiles(ctx); err != nil || conn == nil {
		return err
	}
	if err := conn.DaemonReload(ctx); err != nil {
		return err
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	// Last, so that an agent runs whenever this is cut off.
	switch {
	case u.LoadState == "not-found":
		if err := conn.Stop(ctx, AgentUnit); err != nil && u.ActiveState != "inactive" {
			return fmt.Errorf("stop the agent: %w", err)
		}
		return conn.Disable(ctx, AgentUnit)
	case stateOf(u).manageable():
		i.Log.Info("restarting the agent as the one that was here before; its database stays as it is now")
		return conn.Restart(ctx, AgentUnit)
	}
	return nil
}

// leaves reports whether a program will be there once all is put back.
func (b before) leaves(program string) bool {
	for _, l := range b.Links {
		switch target := l.Before.Link; {
		case l.Path != program:
			continue
		case l.Before.Saved != "":
			return true
		case target == "":
			return false
		case !filepath.IsAbs(target):
			program = filepath.Join(filepath.Dir(program), target)
		default:
			program = target
		}
	}
	_, err := os.Stat(program)
	return err == nil
}

var execStart = regexp.MustCompile(`(?m)^ExecStart=[-@:+!]*(\S+)`)

// plainUnit makes up for a package that was taken over: it cannot be installed
// again from here, but its agent can run from the programs that it left, with its
// unit as a file of its own.
func (i *Installer) plainUnit(ctx context.Context, b *before) error {
	if len(b.Packages) == 0 {
		return nil
	}
	packages, err := ospackage.Installed(ctx)
	if err != nil {
		return err
	}
	for _, p := range packages {
		if slices.ContainsFunc(b.Packages, func(q ospackage.Package) bool { return q.Kind == p.Kind && q.Name == p.Name }) {
			return nil // it is here, still or again
		}
	}
	program := filepath.Join(i.Paths.LinkDir, "teleport")
	if m := execStart.FindSubmatch(b.PackageUnit); m != nil {
		program = string(m[1])
	}
	if !b.leaves(program) {
		return fmt.Errorf("the agent that was here came with the package %s, which was removed with %s; updates are disabled, nothing else was changed: "+
			"install the package again first, or `teleport-update uninstall --keep-agent` leaves the agent as plain files", describePackages(b.Packages), program)
	}
	if len(b.PackageUnit) == 0 {
		return nil // it had none where packages have units
	}
	b.Unit = unitBefore{Path: i.Paths.Unit(), Regular: true, Content: b.PackageUnit, Mode: 0o644}
	return nil
}
