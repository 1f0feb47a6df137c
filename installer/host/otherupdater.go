package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

// Other programs that manage the same agent. Two of them would undo each other's work
// for ever.
const (
	othersConfig = layout.TeleportsUpdaterDir + "/update.yaml" // of Teleport's own updater
	// A program that changes something there holds OthersLock.
	OthersLock = layout.TeleportsUpdaterDir + "/update.lock"
)

// otherUpdater is another updater that can be replaced.
type otherUpdater struct {
	off string // what takes it off the host instead; empty: its own program does
	// files are patterns of the files that belong to it alone and keep it going. The files that it
	// decides by come first: a run of it that waits for its lock then finds nothing to do.
	files []string
}

var (
	teleportsUpdater = otherUpdater{"", []string{
		othersConfig,
		layout.ConfigDir + "/*.wants/teleport-update.timer", layout.ConfigDir + "/teleport-update.timer",
		layout.ConfigDir + "/teleport-update.service",
		layout.ConfigDir + "/*.service.d/teleport-update.conf", "/etc/needrestart/conf.d/teleport-update.conf",
		layout.LinkDir + "/" + UpdaterName,
	}}
	teleportUpgrade = otherUpdater{"remove the package teleport-ent-updater", []string{
		layout.ConfigDir + "/*.wants/teleport-upgrade*.timer", layout.ConfigDir + "/teleport-upgrade*.timer",
		layout.ConfigDir + "/teleport-upgrade*.service",
		layout.ConfigDir + "/teleport-upgrade*.timer.d/*.conf",
	}}
)

// traces are the files by which other updaters are known; of is nil for an updater that cannot be replaced.
var traces = []struct {
	pattern string
	of      *otherUpdater
}{
	{othersConfig, &teleportsUpdater},
	{layout.TeleportsDir + "/*/update.yaml", nil},
	{layout.ConfigDir + "/teleport-update.service", nil},
	{layout.ConfigDir + "/teleport-update_*.service", nil},
	{layout.ConfigDir + "/teleport-upgrade.timer", &teleportUpgrade},
	{layout.OldPackageUnitDir + "/teleport-upgrade.timer", &teleportUpgrade},
	{layout.PackageUnitDir + "/teleport-upgrade.timer", &teleportUpgrade},
}

// CheckOthers refuses a host that another updater manages. With replace it refuses only an updater
// that cannot be replaced.
func (h *Host) CheckOthers(replace bool) error {
	theirs := h.othersFiles()
	for _, t := range traces {
		for _, path := range othersAt(h, t.pattern) {
			if target, err := os.Readlink(path); err == nil && target == os.DevNull {
				return masked(filepath.Base(path))
			}
			if systemd.OwnFile(path) {
				continue // that --unit-dir put there
			}
			if replace && h.Usual() && (t.of != nil || slices.Contains(theirs, path)) {
				continue
			}
			err := failure.Unchanged("this host is managed by another updater (%s)", path)
			if t.of == nil {
				return err.To("remove it first").Refused()
			}
			program := filepath.Base(layout.SecondName)
			if ownsUpdaterLink(h) {
				program = UpdaterName
			}
			return err.To("`%[1]s enable --replace-updater` takes the host over and removes that updater once a version is proven; "+
				"or %[2]s, and then `%[1]s enable`", program, offOf(h, t.of)).Refused()
		}
	}
	return nil
}

// CheckOthersCame says which other updater came since to a host with an active version. No version is changed while it is here.
// Another check reports a mask of the updater's own service.
func CheckOthersCame(h *Host) *failure.Error {
	why, found := errors.AsType[*failure.Error](h.CheckOthers(false))
	u := h.OwnUnits()
	timer := filepath.Join(u.ConfigDir, u.Timer())
	mask, _ := os.Readlink(filepath.Join("/", h.OthersRoot, layout.ConfigDir, u.Service())) // empty if it is no link
	switch {
	case found && why.Fix == "" && mask == os.DevNull:
		return nil
	case found:
		return why
	case u.OthersTimer() && u.RecoveryOnly && !h.TimerLater:
		return failure.Unchanged("%s is another updater's", timer).To("remove the file, then `teleport-update update`")
	}
	return nil
}

// offOf says what takes another updater off the host. It names Teleport's own program by a path that leads to it: the usual link may
// be ours.
func offOf(h *Host, of *otherUpdater) string {
	if of.off != "" {
		return of.off
	}
	program := filepath.Join(layout.LinkDir, UpdaterName)
	if ownsUpdaterLink(h) {
		program = h.OthersProgram()
	}
	if program == "" {
		return "remove its files: " + strings.Join(h.othersFiles(), ", ")
	}
	return fmt.Sprintf("run `%s uninstall`, which is Teleport's own program", program)
}

// OthersProgram returns the newest program of Teleport's own updater on the host. It is empty if the host has no such program.
func (h *Host) OthersProgram() (program string) {
	for _, pattern := range []string{layout.TeleportsDir + "/system/bin/", layout.TeleportsUpdaterDir + "/versions/*/bin/"} {
		if found := othersAt(h, pattern+UpdaterName); len(found) > 0 {
			program = found[len(found)-1]
		}
	}
	return program
}

// ownsUpdaterLink reports whether the updater's name among the usual programs is ours.
func ownsUpdaterLink(h *Host) bool {
	to, err := os.Readlink(filepath.Join("/", h.OthersRoot, layout.LinkDir, UpdaterName))
	if err != nil {
		return false
	}
	_, ours := h.Store.ReleaseOf(to)
	return ours
}

// OthersHere reports whether there is an updater that can be replaced.
func (h *Host) OthersHere() bool { return len(h.othersFiles()) > 0 }

func (h *Host) othersFiles() (files []string) {
	var seen []*otherUpdater
	for _, t := range traces {
		if t.of == nil || len(othersAt(h, t.pattern)) == 0 || slices.Contains(seen, t.of) {
			continue
		}
		seen = append(seen, t.of)
		for _, pattern := range t.of.files {
			files = append(files, othersAt(h, pattern)...)
		}
	}
	return files
}

// PlanReplaced returns the files to remove so that the updaters that are here do nothing any more.
// The programs of their versions stay: processes may run from them.
func (h *Host) PlanReplaced() ([]state.LinkChange, error) {
	var changes []state.LinkChange
	for _, path := range h.othersFiles() {
		before, err := beforeOf(path)
		if err != nil {
			return nil, err
		}
		if path == filepath.Join(layout.LinkDir, UpdaterName) && !strings.HasPrefix(before.Link, layout.TeleportsDir+"/") {
			continue
		}
		changes = append(changes, state.LinkChange{Path: path, Before: before})
	}
	return changes, nil
}

// RemoveReplaced removes these files, and records for uninstall that another updater was here. It can be cut off anywhere and begun
// again: a file that stands in one of their places since is not theirs, and stays.
func (h *Host) RemoveReplaced(files []state.LinkChange) error {
	if h.HasOriginals() {
		b, err := h.Originals()
		if err != nil {
			return err
		}
		b.Replaced = b.Replaced || len(files) > 0
		if err := h.WriteOriginals(b); err != nil {
			return err
		}
	}
	for _, c := range files {
		if !isBack(c) {
			continue
		}
		if err := durable.Remove(c.Path); err != nil {
			return err
		}
	}
	return nil
}

// ReplacedTimers are the timers among these files, by their names.
func ReplacedTimers(files []state.LinkChange) (names []string) {
	for _, c := range files {
		if dir := filepath.Dir(c.Path); strings.HasSuffix(dir, ".wants") {
			names = append(names, filepath.Base(c.Path))
		}
	}
	return names
}
