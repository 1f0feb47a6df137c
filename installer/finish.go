package installer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// finish commits a proven version. It only goes forward, and can be cut off
// anywhere and begun again.
func (i *Installer) finish(ctx context.Context, j *journal, conn *systemd.Conn) error {
	tree, ok, err := i.store().Lookup(target{Version: j.To.Version, Edition: j.To.Edition})
	if err != nil {
		return err
	}
	if !ok {
		return &NeedsPersonError{fmt.Errorf("version %s is proven but no longer on disk at %s: put it back, or remove %s to give up", j.To, j.To.Dir, i.Paths.Journal())}
	}
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return err
	}
	first := c.Spec.ActiveVersion == ""
	if err := i.keepBefore(j, tree, first); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	left, err := i.takeOver(ctx, j, c.Status.PackagesLeft)
	if err != nil {
		return err
	}
	if err := i.reassert(ctx, j, conn, tree, false); err != nil {
		return fmt.Errorf("see that version %s is in its place: %w", j.To, err)
	}
	if err := i.startReasserted(ctx, j, conn); err != nil {
		return err
	}
	if first {
		i.warnOfClosedFolders(tree)
	}
	if err := i.keepPackages(j); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if c.activeTarget() != j.target() {
		i.tellForeignUpdater(tree)
	}
	fresh := c.activeTarget() != j.target() || j.Commit.Spec != nil
	if fresh {
		commitTo(&c, j, i)
	}
	if fresh || !slices.Equal(left, c.Status.PackagesLeft) {
		c.Status.PackagesLeft = left
		if err := c.save(i.Paths.Config()); err != nil {
			return fmt.Errorf("commit version %s: %w", j.To, err)
		}
	}
	if err := i.linkUpdater(tree); err != nil {
		return fmt.Errorf("link the updater of version %s: %w", j.To, err)
	}
	if err := i.forgetKept(j); err != nil {
		return err
	}
	if err := durable.Remove(i.Paths.Journal()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	i.Log.Info("version is active", "version", j.To.String(), "previous", nameOr(c.Status.PreviousVersion, "none"), "unproven", c.Status.Unproven)
	i.retain(c)
	return nil
}

// warnOfClosedFolders tells who can no longer run what they could run before: an
// agent that was here first keeps its data folder to root. To open it is not for
// us to decide.
func (i *Installer) warnOfClosedFolders(tree versions.Tree) {
	for dir := tree.Dir; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			i.Log.Warn("tsh and the other programs are for root only: what their links lead to is in a folder that is closed to others; chmod o+x opens it",
				"folder", dir, "mode", info.Mode().Perm())
		}
	}
}

// commitTo makes the proven version the active one in the configuration.
func commitTo(c *Config, j *journal, i *Installer) {
	if j.Commit.Spec != nil {
		unknown := c.Spec.Unknown
		active := c.Spec.ActiveVersion
		c.Spec = *j.Commit.Spec
		c.Spec.Unknown, c.Spec.ActiveVersion = unknown, active
	}
	if before := c.activeTarget(); before.Version != "" && before != j.target() {
		c.Status.PreviousVersion, c.Status.PreviousEdition = before.Version, before.Edition
	}
	c.Spec.ActiveVersion, c.Status.ActiveEdition = j.To.Version, j.To.Edition
	c.Status.Unproven = !j.Agent.State.manageable()
	c.Status.Failed, c.Status.Interrupted, c.Status.Refused = nil, nil, nil
	c.Status.Held = j.Commit.Held
	c.Status.LastUpdate = &LastUpdate{
		Time: i.timestamp(), Target: j.To.Version, TargetEdition: j.To.Edition,
		Result: Succeeded, SkippedBackup: j.Commit.SkippedBackup,
	}
}

func (j *journal) target() target { return target{Version: j.To.Version, Edition: j.To.Edition} }

// retain removes what nothing needs any more. Failing to is a warning: it must
// not make a switch that held look like one that did not.
func (i *Installer) retain(c Config) {
	needed := versions.Needed{LinkDirs: i.linkDirs()}
	if c.Spec.ActiveVersion != "" {
		needed.Releases = append(needed.Releases, c.activeTarget())
	}
	if p := c.Status.PreviousVersion; p != "" {
		needed.Releases = append(needed.Releases, target{Version: p, Edition: c.Status.PreviousEdition})
	}
	j, err := loadJournal(i.Paths.Journal())
	if err != nil {
		i.Log.Warn("old versions stay, since the journal cannot be read", "error", err)
		return
	}
	if j != nil {
		needed.Releases = append(needed.Releases, j.target())
		if j.From != nil {
			needed.Releases = append(needed.Releases, target{Version: j.From.Version, Edition: j.From.Edition})
		}
	}
	verdicts, err := i.store().Retain(needed)
	if err != nil {
		i.Log.Warn("not all old versions were removed", "error", err)
	}
	for _, v := range verdicts {
		if !v.Keep {
			i.Log.Info("removed a version that nothing needs", "folder", v.Entry.Name, "reason", v.Reason)
		}
	}
}

// linkDirs are the folders whose links count as a need.
func (i *Installer) linkDirs() []string { return []string{i.Paths.LinkDir, i.Paths.UnitDir} }

// linkUpdater makes the updater's own link the version's, where the version
// brings an updater of ours.
func (i *Installer) linkUpdater(tree versions.Tree) error {
	changes, err := versions.PlanUpdaterLink(i.Paths.LinkDir, tree)
	if err != nil {
		return err
	}
	return versions.ApplyLinks(changes, i.Paths.Original())
}
