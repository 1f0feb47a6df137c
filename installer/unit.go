package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/health"
	"teleport-update/internal/durable"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// Folders of units that rank below ours: a package's unit there is taken over
// by the one we write. Everything else that systemd would prefer is in the way.
var rankedBelow = []string{"/lib/systemd/system/", "/usr/lib/systemd/system/"}

// Traces of other programs that manage the same agent. Two of them would undo
// each other's work for ever.
var foreignUpdaters = []string{
	"/opt/teleport/*/update.yaml",
	"/etc/systemd/system/teleport-update.service",
	"/etc/systemd/system/teleport-update_*.service",
	"/etc/systemd/system/teleport-upgrade.timer",
	"/lib/systemd/system/teleport-upgrade.timer",
	"/usr/lib/systemd/system/teleport-upgrade.timer",
}

// checkUnit refuses when the unit that systemd would use for the agent is
// neither ours nor one that ours replaces.
func (i *Installer) checkUnit(ctx context.Context, conn *systemd.Conn) error {
	for _, pattern := range foreignUpdaters {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			if target, err := os.Readlink(path); err == nil && target == os.DevNull {
				name := filepath.Base(path)
				return refuse("%s is masked: `systemctl unmask %s` first; nothing was changed", name, name)
			}
			return refuse("this host is managed by another updater (%s): remove it first; nothing was changed", path)
		}
	}
	if conn == nil {
		inTheWay := filepath.Join("/etc/systemd/system", AgentUnit)
		if exists(inTheWay) && i.Paths.UnitDir == DefaultPaths().UnitDir {
			return refuse("%s takes precedence over the unit that the updater manages: remove it, or turn it into a drop-in; nothing was changed", inTheWay)
		}
		return nil
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	switch {
	case u.LoadState == "masked":
		return refuse("%s is masked: `systemctl unmask %s` first; nothing was changed", AgentUnit, AgentUnit)
	case u.FragmentPath == i.Paths.Unit() && len(u.DropIns) > 0 && filepath.Dir(u.ExecStart) != i.Paths.LinkDir:
		return refuse("the agent's unit starts %s, which is no link of the updater's: look at %s; nothing was changed", u.ExecStart, strings.Join(u.DropIns, ", "))
	case u.FragmentPath == "" || u.FragmentPath == i.Paths.Unit():
		return nil
	}
	for _, dir := range rankedBelow {
		if strings.HasPrefix(u.FragmentPath, dir) {
			return nil
		}
	}
	return refuse("%s takes precedence over the unit that the updater manages: remove it, or turn it into a drop-in; nothing was changed", u.FragmentPath)
}

// checkSwitched makes sure that systemd will start the new version: the unit it
// read is ours, and its command leads through a link of ours into the tree.
func (t *transaction) checkSwitched(ctx context.Context) error {
	return t.checkStarts(ctx, t.conn, t.tree)
}

// checkStarts says what keeps systemd from starting a version. A file of an
// administrator's is a *RefusedError; any other error speaks against the version,
// whose own unit starts something else.
func (i *Installer) checkStarts(ctx context.Context, conn *systemd.Conn, tree versions.Tree) error {
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	if u.LoadState == "not-found" {
		// The unit folder is one that this systemd does not read.
		return nil
	}
	if u.FragmentPath != i.Paths.Unit() {
		return refuse("systemd uses %s instead of %s: remove it, or turn it into a drop-in", u.FragmentPath, i.Paths.Unit())
	}
	if program, err := filepath.EvalSymlinks(u.ExecStart); err == nil && inside(program, tree.Dir) {
		return nil
	}
	if len(u.DropIns) > 0 {
		return refuse("the agent's unit starts %s, which does not lead into %s: look at %s", u.ExecStart, tree.Dir, strings.Join(u.DropIns, ", "))
	}
	return fmt.Errorf("the unit that version %s brings starts %s, which does not lead into %s", releaseOf(tree), u.ExecStart, tree.Dir)
}

// inside reports whether a path without links is in a folder, which an
// administrator may have put elsewhere and left a link to.
func inside(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && strings.HasPrefix(path, real+"/")
}

// lookAtAgent notes how the transaction found the agent.
func (t *transaction) lookAtAgent(ctx context.Context) (agentBefore, error) {
	if t.conn == nil {
		return agentBefore{State: agentUnknown}, nil
	}
	u, err := t.conn.Unit(ctx, AgentUnit)
	if err != nil {
		return agentBefore{}, err
	}
	return agentBefore{State: stateOf(u), UnitFile: u.UnitFileState, Program: u.ExecStart, InvocationID: u.InvocationID, MainPID: u.MainPID}, nil
}

func stateOf(u systemd.Unit) agentState {
	switch {
	case u.ActiveState == "failed", strings.HasPrefix(u.SubState, "auto-restart"):
		return agentFailing
	case u.ActiveState == "active", u.ActiveState == "reloading", u.ActiveState == "activating", u.JobPending:
		return agentRunning
	}
	return agentStopped
}

// healthWindow is how long the agent must hold: as long as a person said, else
// long enough to see it fail again and again.
func healthWindow(spec HealthSpec, u systemd.Unit) time.Duration {
	if w := spec.Window.Std(); w != 0 {
		return w
	}
	return max(defaultWindow, health.MinWindow(u))
}

// watch describes the health watch of a version in dir.
func (i *Installer) watch(ctx context.Context, conn *systemd.Conn, dir string, spec HealthSpec) (health.Watch, error) {
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return health.Watch{}, err
	}
	return health.Watch{Unit: AgentUnit, Dir: dir, Window: healthWindow(spec, u), ReadyURL: spec.ReadyURL, Log: i.Log}, nil
}

// writeUnit puts a version's unit in place: a copy, not a link, because
// `systemctl enable` follows a link and pins the version's own folder into
// /etc, where it would dangle once that version is removed.
func (i *Installer) writeUnit(tree versions.Tree) error {
	content, err := os.ReadFile(tree.UnitFile())
	if err != nil {
		return fmt.Errorf("read the unit of version %s: %w", tree.Release.Version, err)
	}
	if err := durable.MkdirAll(i.Paths.UnitDir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(i.Paths.Unit(), content, 0o644)
}

func readUnitBefore(path string) (unitBefore, error) {
	u := unitBefore{Path: path}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		u.Target, err = os.Readlink(path)
	case info.Mode().IsRegular() && info.Size() > versions.MaxUnit:
		err = refuse("%s is of %d bytes, so it is no unit: move it away; nothing was changed", path, info.Size())
	case info.Mode().IsRegular():
		u.Regular, u.Mode = true, uint32(info.Mode().Perm())
		u.Content, err = os.ReadFile(path)
	default:
		err = refuseUnit(path)
	}
	return u, err
}

func refuseUnit(path string) error {
	return refuse("%s is neither a file nor a link: remove it; nothing was changed", path)
}

// restore puts the unit file back as it was.
func (u unitBefore) restore() error {
	switch {
	case u.Regular:
		return durable.WriteFile(u.Path, u.Content, fs.FileMode(u.Mode))
	case u.Target != "":
		if err := durable.Relink(u.Target, u.Path); err != nil {
			return err
		}
		return durable.SyncDir(filepath.Dir(u.Path))
	case !exists(filepath.Dir(u.Path)):
		return nil
	default:
		return durable.Remove(u.Path)
	}
}
