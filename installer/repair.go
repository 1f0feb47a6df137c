package installer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// repair puts right what is amiss with the active version, short of fetching
// it: links and unit (RFD 0169 §Runtime, enable step 14). The agent is not
// restarted. It reports whether the version itself is whole; with thorough,
// every file is checked against the manifest, and the updater's own units are put
// right: an operator who disabled the timer will not find it enabled again by a
// tick.
func (i *Installer) repair(ctx context.Context, c Config, thorough bool) (whole bool, err error) {
	if c.Spec.ActiveVersion == "" {
		return true, nil
	}
	tree, ok, err := i.active(c)
	if err != nil {
		return false, err
	}
	if !ok {
		i.Log.Error("the active version is not whole on disk any more; it is fetched again", "version", c.Spec.ActiveVersion)
		return false, nil
	}
	check := tree.CheckPresent
	if thorough {
		check = tree.Verify
	}
	var damaged *versions.DamagedError
	if err := check(ctx); errors.As(err, &damaged) {
		i.Log.Error("the active version is damaged; it is fetched again", "version", c.Spec.ActiveVersion, "error", err)
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := i.repairLinks(ctx, tree); err != nil || !thorough {
		return true, err
	}
	return true, i.repairUnits(ctx)
}

func (i *Installer) repairUnits(ctx context.Context) error {
	problems := i.units().Problems()
	if len(problems) == 0 {
		return nil
	}
	for _, p := range problems {
		i.Log.Warn("repairing", "problem", p)
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	_, err = i.installUnits(ctx, conn)
	return err
}

// relinkRepaired follows a new fetch of the active version.
func (i *Installer) relinkRepaired(ctx context.Context) error {
	c, unlock, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = i.repair(ctx, c, false)
	return err
}

func (i *Installer) repairLinks(ctx context.Context, tree versions.Tree) error {
	problems, err := i.linkProblems(tree)
	if err != nil || len(problems) == 0 {
		return err
	}
	for _, p := range problems {
		i.Log.Warn("repairing", "problem", p)
	}
	if err := i.relink(tree); err != nil {
		return err
	}
	if err := i.linkUpdater(tree); err != nil {
		return fmt.Errorf("repair the updater's link: %w", err)
	}
	conn, err := i.dial(ctx)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	return conn.DaemonReload(ctx)
}

// relink makes links and unit a version's, whatever is there. A version that was
// published anew may bring other programs.
func (i *Installer) relink(tree versions.Tree) error {
	links, err := versions.PlanLinks(i.Paths.LinkDir, tree, i.originals())
	if err != nil {
		return err
	}
	if err := i.noteBefore(links); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if err := versions.ApplyLinks(links, i.Paths.Original()); err != nil {
		return fmt.Errorf("repair the links: %w", err)
	}
	if err := i.writeUnit(tree); err != nil {
		return fmt.Errorf("repair the agent's unit: %w", err)
	}
	return i.dropBefore(tree)
}

// linkProblems lists what differs from what the version in tree should have.
func (i *Installer) linkProblems(tree versions.Tree) ([]string, error) {
	problems, err := versions.CheckLinks(i.Paths.LinkDir, tree)
	if err != nil {
		return nil, err
	}
	want, err := os.ReadFile(tree.UnitFile())
	if err != nil {
		return nil, err
	}
	unit := i.Paths.Unit()
	info, err := os.Lstat(unit)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return append(problems, unit+" is missing"), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() && info.Mode()&os.ModeSymlink == 0:
		return nil, refuseUnit(unit)
	}
	// What cannot be read like a unit is none, and a new one takes its place.
	if got, err := readPlain(unit, archive.MaxUnit); err != nil || !bytes.Equal(got, want) {
		problems = append(problems, unit+" is not the unit of version "+tree.Release.Version)
	}
	return problems, nil
}
