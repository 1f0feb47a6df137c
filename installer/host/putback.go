package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
	"teleport-update/ospackage"
)

// PutBack makes links and unit what the first enable found.
func (h *Host) PutBack(ctx context.Context) error {
	b, err := h.Originals()
	if err != nil {
		return err
	}
	if err := h.PlainUnit(ctx, &b); err != nil {
		return err
	}
	if len(b.PackageUnit) > 0 && string(b.Unit.Content) == string(b.PackageUnit) {
		h.Log.Warn("the agent that was here came with a package, which is not installed again; it is left as plain files",
			"package", DescribePackages(b.Packages))
	}
	if err := removeLinks(h.Paths.LinkDir, h.Store); err != nil {
		return fmt.Errorf("remove the links: %w", err)
	}
	if err := RevertLinks(b.Links, h.Paths.Original()); err != nil {
		return fmt.Errorf("put back what the links replaced: %w", err)
	}
	if err := RestoreUnit(b.Unit); err != nil {
		return fmt.Errorf("put back the agent's unit: %w", err)
	}
	if err := h.removeMoved(b.Unit.Path); err != nil {
		return fmt.Errorf("remove the agent's unit from the folder that it was moved to: %w", err)
	}
	return nil
}

// RemovePlaced removes the files that enable placed and nobody has changed since.
func RemovePlaced(h *Host) error {
	b, err := h.readOriginals()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no version was proven, or an uninstall was cut off after it had removed this
	}
	if err != nil {
		return err
	}
	return b.removePlaced()
}

// UnplaceUnit removes the unit that PutBack put back in another folder than the agent's present unit, where it could take precedence.
func UnplaceUnit(h *Host) error {
	b, err := h.Originals()
	if err != nil || b.Unit.Path == "" || h.isUnit(b.Unit.Path) {
		return err
	}
	now, err := ReadUnit(b.Unit.Path)
	if err != nil || !SameUnit(now, b.Unit) {
		return err
	}
	return RestoreUnit(state.UnitFile{Path: b.Unit.Path})
}

// leaves reports whether a program will be there once all is put back.
func (b Originals) leaves(program string) bool {
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

// AgentBefore returns the program of the agent that comes back once all is put back, at its present
// path. comes is false if no agent was here before, as far as is known.
func (h *Host) AgentBefore(o Originals) (program string, comes bool) {
	program = filepath.Join(h.Paths.LinkDir, AgentName)
	units := [][]byte{o.Unit.Content, o.PackageUnit}
	comes = o.Unit.Regular || o.Unit.Target != "" || len(o.Packages) > 0
	if h.Usual() {
		// A unit in a folder that ranks below ours starts again once ours is gone.
		for _, dir := range layout.PackageUnitDirs {
			unit, err := regular.Read(filepath.Join(dir, h.Paths.AgentUnit()), state.MaxConfigSize, 0)
			comes = comes || err == nil
			units = append(units, unit)
		}
	}
	for _, unit := range units {
		if m := execStart.FindSubmatch(unit); m != nil {
			program = string(m[1])
			break
		}
	}
	for _, l := range o.Links {
		switch {
		case l.Path != program:
		case l.Before.Saved != "":
			return filepath.Join(h.Paths.Original(), l.Before.Saved), true
		case l.Before.Link != "":
			comes = true
			if program = l.Before.Link; !filepath.IsAbs(program) {
				program = filepath.Join(filepath.Dir(l.Path), program)
			}
		}
	}
	return program, comes
}

var execStart = regexp.MustCompile(`(?m)^ExecStart=[-@:+!]*(\S+)`)

// PlainUnit makes up for a package that was taken over: it cannot be installed
// again from here, but its agent can run from the programs that it left, with its
// unit as a file of its own.
func (h *Host) PlainUnit(ctx context.Context, b *Originals) error {
	if len(b.Packages) == 0 {
		return nil
	}
	packages, err := ospackage.Installed(ctx)
	if err != nil {
		return err
	}
	for _, p := range packages {
		if slices.ContainsFunc(b.Packages, func(q state.Package) bool { return q.Kind == p.Kind && q.Name == p.Name }) {
			return nil // it is here, still or again
		}
	}
	program := filepath.Join(h.Paths.LinkDir, "teleport")
	if m := execStart.FindSubmatch(b.PackageUnit); m != nil {
		program = string(m[1])
	}
	if !b.leaves(program) {
		return failure.Unchanged("the agent that was here came with the package %s, which was removed with %s", DescribePackages(b.Packages),
			program).
			To("install the package again first, or `teleport-update uninstall --keep-agent` leaves the agent as plain files")
	}
	if len(b.PackageUnit) == 0 {
		return nil // packages had no unit there
	}
	b.Unit = state.UnitFile{Path: h.Paths.Unit(), Regular: true, Content: b.PackageUnit, Mode: 0o644}
	return nil
}

// DescribePackages names packages for a person.
func DescribePackages(packages []state.Package) string {
	var names []string
	for _, p := range packages {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
