package host

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
)

// In returns the same host with its units in another folder.
func (h *Host) In(unitDir string) *Host {
	other := *h
	other.Paths.UnitDir = unitDir
	return &other
}

// HasUnits reports whether the agent's unit, or one of the updater's own, is in the folder of units.
func (h *Host) HasUnits() bool { return Exists(h.Paths.Unit()) || h.OwnUnits().Present() }

// CheckMove refuses a folder of units in which somebody else's files have the names of ours. It
// changes nothing.
func (h *Host) CheckMove(to string) error {
	was, err := ReadUnit(h.Paths.Unit())
	if err != nil {
		return err
	}
	there, err := ReadUnit(h.In(to).Paths.Unit())
	if err != nil {
		return err
	}
	names := []string{}
	if (there.Regular || there.Target != "") && !SameUnit(was, there) {
		names = append(names, there.Path)
	}
	names = append(names, h.In(to).OwnUnits().Foreign()...)
	if len(names) > 0 {
		return failure.Unchanged("units cannot move to %s: somebody else's %s", to, names[0]).
			To("write what it says into a drop-in, then remove the file (`systemctl unmask` removes a mask)").Refused()
	}
	return nil
}

// MoveUnits moves the agent's unit and the updater's own out of a folder into the folder of units. Neither
// the agent nor the version changes. It can be cut off anywhere and made again: nothing leaves the one
// folder before all is in the other, and systemd knows each unit all the time.
func (h *Host) MoveUnits(ctx context.Context, timer Timer, from string) error {
	if from == h.Paths.UnitDir || !h.In(from).HasUnits() {
		return nil
	}
	if err := h.copyUnits(from); err != nil {
		return err
	}
	read := timer.DaemonReload
	if u := h.OwnUnits(); !u.RecoveryOnly {
		read = func(ctx context.Context) error { return timer.StartTimer(ctx, u.Timer(), true) }
	}
	if err := read(ctx); err != nil {
		return err
	}
	if err := h.leaveUnits(from); err != nil {
		return err
	}
	if err := timer.DaemonReload(ctx); err != nil {
		return err
	}
	h.Log.Info("units are in another folder", "folder", h.Paths.UnitDir, "before", from)
	if others := h.othersLeft(from); len(others) > 0 {
		h.Log.Warn("drop-ins of the agent's unit stay in the folder before: move them, if they are not there at boot",
			"files", strings.Join(others, ", "), "to", h.Paths.UnitDir)
	}
	return nil
}

// copyUnits copies the agent's unit and the updater's own into the folder of units, from a folder
// in which they stay. It can be cut off anywhere and made again.
func (h *Host) copyUnits(from string) error {
	old := h.In(from)
	if err := durable.MkdirAll(h.Paths.UnitDir, 0o755); err != nil {
		return err
	}
	if err := old.OwnUnits().CopyDropIns(h.OwnUnits()); err != nil {
		return err
	}
	unit, err := ReadUnit(old.Paths.Unit())
	if err != nil {
		return err
	}
	if unit.Regular || unit.Target != "" {
		unit.Path = h.Paths.Unit()
		if err := RestoreUnit(unit); err != nil {
			return err
		}
	}
	own := h.OwnUnits()
	own.EnableTimer = true // `enable` moves units
	if _, err := own.Write(); err != nil {
		return err
	}
	links, err := old.EnabledBy()
	if err != nil {
		return err
	}
	for n, link := range links {
		links[n] = filepath.Join(h.configDir(), filepath.Base(filepath.Dir(link)), h.Paths.AgentUnit())
	}
	return h.Reenable(links)
}

// leaveUnits removes from a folder the units that copyUnits has copied. A unit that differs from
// its copy stays: somebody wrote it.
func (h *Host) leaveUnits(from string) error {
	old := h.In(from)
	elsewhere := old.configDir() != h.configDir()
	if elsewhere {
		links, err := old.EnabledBy()
		if err != nil {
			return err
		}
		for _, link := range links {
			if err := durable.Remove(link); err != nil {
				return err
			}
		}
	}
	if err := old.OwnUnits().EraseFiles(elsewhere); err != nil {
		return err
	}
	was, err := ReadUnit(old.Paths.Unit())
	if err != nil || !was.Regular && was.Target == "" {
		return err
	}
	is, err := ReadUnit(h.Paths.Unit())
	if err != nil || !SameUnit(was, is) {
		h.Log.Warn("the agent's unit differs from the copy that is in force, and stays", "file", was.Path, "error", err)
		return nil
	}
	return durable.Remove(was.Path)
}

// othersLeft returns an administrator's drop-ins in a folder that units moved out of.
func (h *Host) othersLeft(from string) []string {
	files, _ := filepath.Glob(filepath.Join(from, h.Paths.AgentUnit()+".d", "*.conf"))
	own := []string{h.In(from).OwnUnits().CarriedFile(), h.In(from).OwnUnits().UpdaterInfoFile()}
	return slices.DeleteFunc(files, func(f string) bool { return slices.Contains(own, f) })
}
