package host

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// MakeSpares makes a spare beside each place of the changes that lead to a version, and of the agent's unit, if that changes: what stood
// there before. RevertLinks and RestoreUnit put the spares back, so they need neither room nor inodes.
func MakeSpares(h *Host, to versions.Tree, changes []state.LinkChange, unit state.UnitFile) error {
	for _, c := range changes {
		if err := makeSpare(c); err != nil {
			return space.Explain(err, filepath.Dir(c.Path))
		}
	}
	if err := syncFolders(changes); err != nil {
		return err
	}
	stays, err := h.hasUnitOf(to)
	if err != nil || stays || !Exists(filepath.Dir(unit.Path)) {
		return err
	}
	spare := unit
	spare.Path = durable.Spare(unit.Path)
	return space.Explain(RestoreUnit(spare), filepath.Dir(unit.Path))
}

func makeSpare(c state.LinkChange) error {
	spare := durable.Spare(c.Path)
	switch {
	case c.Before.Link != "":
		return durable.RelinkNoSync(c.Before.Link, spare)
	case c.Before.Saved != "" && Exists(c.Path):
		if err := durable.UnlinkNoSync(spare); err != nil {
			return err
		}
		err := durable.Link(c.Path, spare)
		if slices.ContainsFunc(noSecondName, func(e error) bool { return errors.Is(err, e) }) {
			return durable.CloneFile(c.Path, spare)
		}
		return err
	}
	return nil
}

// noSecondName are the errors of a file that gets no second name: its file system has no hard links, or it has too many of them.
var noSecondName = []error{unix.EPERM, unix.EOPNOTSUPP, unix.EMLINK}

// DropSpares removes the spares from the folders of links and of the agent's unit.
func DropSpares(h *Host) error {
	err := durable.DropSpares(h.Paths.LinkDir)
	if unitErr := durable.DropSpares(h.Paths.UnitDir); err == nil {
		err = unitErr
	}
	return err
}

// spareHolds reports whether the spare of a path is the regular file that was saved.
func spareHolds(path, saved string) bool {
	spare := durable.Spare(path)
	is, err := beforeOf(spare)
	return err == nil && is.Saved == filepath.Base(spare)+strings.TrimPrefix(saved, filepath.Base(path))
}

// unitSpareHolds reports whether the spare of a unit is that unit.
func unitSpareHolds(u state.UnitFile) bool {
	if !u.Regular && u.Target == "" {
		return false
	}
	spare, err := ReadUnit(durable.Spare(u.Path))
	return err == nil && SameUnit(spare, u)
}
