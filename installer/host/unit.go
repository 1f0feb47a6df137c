package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// CheckUnit refuses if the unit that systemd would use for the agent is neither ours nor one that
// ours replaces. Without systemd, as in the image of a host, u is the zero Unit.
func (h *Host) CheckUnit(u systemd.Unit) error {
	switch {
	case u.LoadState == "":
		if above := filepath.Join(layout.ConfigDir, h.Paths.AgentUnit()); Exists(above) && h.Paths.UnitDir == layout.UnitDir {
			return takesPrecedence(h, above)
		}
		return nil
	case u.LoadState == "not-found" && u.MainPID != 0 && !h.HasOriginals():
		return failure.Unchanged("systemd has no file of %s, which runs: the file was removed, and with it what it said of the agent", u.Name).
			To("put the file back and run `systemctl daemon-reload`, then run the command again; if nothing of it is needed, "+
				"`systemctl stop %s` first, and start the agent after `enable`", u.Name).Refused()
	case u.LoadState == "masked":
		return masked(h.Paths.AgentUnit())
	case u.LoadState == "bad-setting", u.LoadState == "error":
		return failure.Unchanged("systemd has %s as %s", u.Name, u.LoadState).To("%s", mendUnit(u)).Refused()
	case h.startsAnother(u):
		return failure.Unchanged("%w", h.another(u)).Refused()
	case u.FragmentPath == "" || h.IsUnit(u.FragmentPath), slices.Contains(lowerDirs(h.Paths.UnitDir), filepath.Dir(u.FragmentPath)):
		// Ours takes the place of a unit that ranks below it. Any other unit that systemd would prefer is in the way.
		return nil
	}
	if u.SourcePath != "" {
		return failure.Unchanged("the agent is started by %s, from which systemd has made a unit of its own", u.SourcePath).
			To("stop it with `systemctl stop teleport`, remove the file, and run `systemctl daemon-reload`; then run the command again").Refused()
	}
	return takesPrecedence(h, u.FragmentPath)
}

// lowerDirs returns the folders with units that rank below ours: those of packages, and for /etc our usual folder, in which an
// uninstall left the agent's unit.
func lowerDirs(unitDir string) []string {
	if unitDir == layout.ConfigDir {
		return slices.Concat([]string{layout.UnitDir}, layout.PackageUnitDirs)
	}
	return layout.PackageUnitDirs
}

// IsUnit reports whether a path is the agent's unit, by whatever name: /lib may be a link to
// /usr/lib.
func (h *Host) IsUnit(path string) bool {
	if path == h.Paths.Unit() {
		return true
	}
	a, err := os.Stat(filepath.Dir(path))
	b, err2 := os.Stat(h.Paths.UnitDir)
	return err == nil && err2 == nil && filepath.Base(path) == h.Paths.AgentUnit() && os.SameFile(a, b)
}

// AboveOurs reports whether our unit is there and a path is another unit that ranks above it: systemd would load ours without that.
func (h *Host) AboveOurs(path string) bool {
	ranksBelow := slices.Contains(lowerDirs(h.Paths.UnitDir), filepath.Dir(path))
	return path != "" && Exists(h.Paths.Unit()) && !h.IsUnit(path) && !ranksBelow
}

// startsAnother reports whether a drop-in makes our unit start another program than the agent's link, for example a wrapper beside it.
func (h *Host) startsAnother(u systemd.Unit) bool {
	return h.IsUnit(u.FragmentPath) && len(h.othersDropIns(u)) > 0 && u.ExecStart != filepath.Join(h.Paths.LinkDir, AgentName)
}

func (h *Host) another(u systemd.Unit) error {
	return fmt.Errorf("the agent's unit starts %s, which is not the updater's link of the agent: look at %s", u.ExecStart,
		strings.Join(h.othersDropIns(u), ", "))
}

// mendUnit says what to do about a unit that systemd could not load.
func mendUnit(u systemd.Unit) string {
	return fmt.Sprintf("`systemctl status %[1]s` says what is wrong with its files; correct them, then `systemctl daemon-reload`", u.Name)
}

// MendOwn says what helps if systemd has not loaded a unit of the updater's.
func MendOwn(u systemd.Unit) string {
	switch u.LoadState {
	case "masked":
		return "`" + systemd.Unmask(u.Name) + "`"
	case "not-found":
		return "`systemctl daemon-reload`, and `teleport-update update` puts it back if it is missing"
	}
	return mendUnit(u) + dropInsOf(u)
}

func dropInsOf(u systemd.Unit) string {
	if len(u.DropIns) == 0 {
		return ""
	}
	return " (its drop-ins: " + strings.Join(u.DropIns, ", ") + ")"
}

func masked(unit string) error {
	return failure.Unchanged("%s is masked: `%s` first", unit, systemd.Unmask(unit)).Refused()
}

// takesPrecedence refuses a unit that systemd prefers to ours. The settings of an administrator's unit are kept if ours
// takes its place, which happens at the first enable only. They are lost if somebody removes the unit to get on.
func takesPrecedence(h *Host, path string) error {
	why := failure.Unchanged("%s takes precedence over the unit that the updater manages", path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return why.To("the file was removed, and systemd has it still: put it back, or run `systemctl daemon-reload`").Refused()
	case err == nil && info.Mode().IsRegular() && path == filepath.Join(layout.ConfigDir, h.Paths.AgentUnit()) && !h.HasOriginals():
		return why.To("leave it there; `teleport-update --unit-dir %s enable`, with the other options as before, keeps what it says of the agent",
			layout.ConfigDir).Refused()
	}
	return why.To("%s", toDropIn(h.Paths.AgentUnit())).Refused()
}

// toDropIn says how to get rid of a unit of the agent's that is in the way of ours without losing its settings.
func toDropIn(unit string) string {
	return fmt.Sprintf("write what it says otherwise into a drop-in (`systemctl edit %s`; an empty ExecStart= comes before another command), "+
		"then remove the file", strings.TrimSuffix(unit, ".service"))
}

// CheckStarts says what keeps systemd from starting a version, whose links and unit are in their places: the unit that
// it read must be ours, and its command lead through a link of ours into the tree. A file of an administrator's is a
// *failure.RefusedError, and so is a folder of links that the version's own unit does not know; any other error counts
// against the version, whose own unit starts something else.
func (h *Host) CheckStarts(u systemd.Unit, tree versions.Tree) error {
	if u.LoadState == "" || u.LoadState == "not-found" {
		// There is no systemd, or one that does not read the unit folder.
		return nil
	}
	if !h.IsUnit(u.FragmentPath) {
		return failure.Refuse("systemd uses %s instead of %s: %s", u.FragmentPath, h.Paths.Unit(), toDropIn(h.Paths.AgentUnit()))
	}
	if program, err := filepath.EvalSymlinks(u.ExecStart); err == nil && inside(program, tree.ProgramsDir()) {
		return nil
	}
	if others := h.othersDropIns(u); len(others) > 0 {
		return failure.Refuse("the agent's unit starts %s, which does not lead into %s: look at %s", u.ExecStart, tree.ProgramsDir(),
			strings.Join(others, ", "))
	}
	if h.Paths.LinkDir != layout.LinkDir && filepath.Dir(u.ExecStart) == layout.LinkDir {
		return failure.Refuse("the unit that version %s brings starts %s, and links are in %s (--link-dir): `systemctl edit %s` with "+
			"`[Service]`, `ExecStart=` and the whole command with %s has the agent start from there",
			tree.Release.Short(), u.ExecStart, h.Paths.LinkDir, strings.TrimSuffix(h.Paths.AgentUnit(), ".service"),
			filepath.Join(h.Paths.LinkDir, filepath.Base(u.ExecStart)))
	}
	return fmt.Errorf("the unit that version %s brings starts %s, which does not lead into %s", tree.Release.Short(), u.ExecStart,
		tree.ProgramsDir())
}

// CheckAccess refuses paths that the unit's own view of the file system keeps from the agent. A reload
// keeps the view that the agent was started with: the next start would fail.
func CheckAccess(u systemd.Unit, to systemd.Access, paths ...string) error {
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it is not there yet
		}
		if setting := u.Ties.View.Denies(real, to); setting != "" {
			return failure.Refuse("%s of %s keeps the agent from %s at its next start: `systemctl cat %[2]s` shows where that is set", setting,
				u.Name, path)
		}
	}
	return nil
}

// PlaceUnit puts a version's unit in place: a copy, not a link, because
// `systemctl enable` follows a link and pins the version's own folder into
// /etc, where it would dangle once that version is removed.
//
// A unit that is there already is not written again: its folder may be read-only.
func (h *Host) PlaceUnit(tree versions.Tree) error {
	is, err := h.hasUnitOf(tree)
	if err != nil {
		return err
	}
	if is {
		return settleUnit(h.Paths.Unit(), true)
	}
	unit, err := h.UnitOf(tree)
	if err != nil {
		return err
	}
	if unitSpareHolds(unit) {
		return durable.SwapSpare(unit.Path)
	}
	if err := durable.MkdirAll(h.Paths.UnitDir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(unit.Path, unit.Content, 0o644)
}

// settleUnit puts a unit that is as it should be on stable storage: a run that was killed may have
// written it, and not come to its sync.
func settleUnit(path string, regular bool) error {
	if regular {
		if err := durable.SyncFile(path); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// UnitOf returns the unit file of a version.
func (h *Host) UnitOf(tree versions.Tree) (state.UnitFile, error) {
	content, err := h.unitOf(tree)
	return state.UnitFile{Path: h.Paths.Unit(), Regular: true, Content: content, Mode: 0o644}, err
}

// hasUnitOf reports whether a version's unit is in place.
func (h *Host) hasUnitOf(tree versions.Tree) (bool, error) {
	want, err := h.UnitOf(tree)
	if err != nil {
		return false, err
	}
	now, err := ReadUnit(h.Paths.Unit())
	return err == nil && SameUnit(now, want), nil
}

// ReadUnit reads a unit file as it stands there.
func ReadUnit(path string) (state.UnitFile, error) {
	u := state.UnitFile{Path: path}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, nil
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		u.Target, err = os.Readlink(path)
	case info.Mode().IsRegular() && info.Size() > archive.MaxUnit:
		err = failure.Unchanged("%s has %d bytes, too many for a unit: move it away", path, info.Size()).Refused()
	case info.Mode().IsRegular():
		u.Regular, u.Mode = true, uint32(info.Mode().Perm())
		u.Content, err = regular.Read(path, archive.MaxUnit, regular.NoLink)
	default:
		err = refuseUnit(path)
	}
	return u, err
}

// UnitLost reports whether nothing is left of a unit file: it is gone, or empty, as after a full disk or a power cut.
func UnitLost(u state.UnitFile) bool { return u.Target == "" && len(u.Content) == 0 }

func refuseUnit(path string) error {
	return failure.Unchanged("%w", &occupiedError{path, "neither a file nor a link", "the agent's unit"}).Refused()
}

// RestoreUnit puts a unit file back as it was, unless it is so already.
func RestoreUnit(u state.UnitFile) error {
	now, err := ReadUnit(u.Path)
	if err == nil && SameUnit(now, u) {
		return settleUnit(u.Path, u.Regular)
	}
	if unitSpareHolds(u) {
		return durable.SwapSpare(u.Path)
	}
	if stands := u.Regular || u.Target != ""; stands && !Exists(filepath.Dir(u.Path)) {
		if err := durable.MkdirAll(filepath.Dir(u.Path), 0o755); err != nil {
			return err
		}
	}
	switch {
	case u.Regular:
		return durable.WriteFile(u.Path, u.Content, fs.FileMode(u.Mode))
	case u.Target != "":
		if err := durable.RelinkNoSync(u.Target, u.Path); err != nil {
			return err
		}
		return durable.SyncDir(filepath.Dir(u.Path))
	case !Exists(filepath.Dir(u.Path)):
		return nil
	default:
		return durable.Remove(u.Path)
	}
}

// Problems lists how links and unit differ from those that tree should have. Something that neither replaces is an error, see InTheWay.
func (h *Host) Problems(tree versions.Tree) ([]string, error) {
	problems, err := CheckLinks(h.Paths.LinkDir, tree)
	if err != nil {
		return nil, err
	}
	want, err := h.unitOf(tree)
	if err != nil {
		return nil, err
	}
	unit := h.Paths.Unit()
	info, err := os.Lstat(unit)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return append(problems, unit+" is missing"), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() && info.Mode()&os.ModeSymlink == 0:
		return nil, refuseUnit(unit)
	}
	// A file that cannot be read like a unit does not count, and a new one takes its place.
	if got, err := regular.Read(unit, archive.MaxUnit, 0); err != nil || !bytes.Equal(got, want) {
		problems = append(problems, unit+" is not the unit of version "+tree.Release.Version)
	}
	return problems, nil
}

// othersDropIns returns the files that add to the agent's unit and are not the updater's.
func (h *Host) othersDropIns(u systemd.Unit) []string {
	own := []string{h.OwnUnits().UpdaterInfoFile(), h.OwnUnits().CarriedFile()}
	return slices.DeleteFunc(slices.Clone(u.DropIns), func(path string) bool { return slices.Contains(own, path) })
}
