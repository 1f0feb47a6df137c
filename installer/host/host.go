// Package host is about what stands on this host in the places that are the
// updater's: the links to a version's programs, the agent's unit and how it is
// enabled, the updater's own units. It checks all of it, puts a version there, and
// puts back what was there before.
//
// Everything here changes files only, and durably; that systemd has to read its
// files again is for the caller. What stood in a place that becomes ours is kept:
// see Originals.
package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/internal/layout"
	"teleport-update/internal/selinux"
	"teleport-update/versions"
)

// Names of programs, in releases and in the link folder.
const (
	AgentName   = "teleport"
	UpdaterName = "teleport-update"
)

// Host is one host.
type Host struct {
	Paths   state.Paths
	Store   *versions.Store
	Log     *slog.Logger
	Program string         // this program's own file, for the copy that the timer runs
	Labels  selinux.Labels // of SELinux's, for programs
	// TimerLater leaves the updater's own timer out until another updater is replaced: one
	// of them is on at a time.
	TimerLater bool
}

// configDir is where units are enabled.
func (h *Host) configDir() string {
	if h.Paths.UnitDir != layout.UnitDir {
		return h.Paths.UnitDir
	}
	return layout.ConfigDir
}

// Exists reports whether a name is taken, by whatever.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Usual reports whether the folders are those of an ordinary host: only these can
// be a package's.
func (h *Host) Usual() bool {
	return h.Paths.LinkDir == layout.LinkDir && h.Paths.DataDir == layout.DataDir
}

// Place puts a version where systemd and people find it, whatever stands there:
// its links, as far as changes say, and then its unit.
func (h *Host) Place(tree versions.Tree, links []state.LinkChange) error {
	if err := h.Link(links); err != nil {
		return err
	}
	return h.PlaceUnit(tree)
}

// Link is ApplyLinks, and names the files that it kept aside.
func (h *Host) Link(links []state.LinkChange) error {
	for _, c := range links {
		if c.Before.Saved != "" {
			h.Log.Warn("a file stands in the place of a link and is kept aside", "file", c.Path,
				"aside", filepath.Join(h.Paths.Original(), c.Before.Saved))
		}
	}
	return ApplyLinks(links, h.Paths.Original())
}

// PlanLinks says what changes in the link folder make the programs of a tree linked.
func (h *Host) PlanLinks(tree versions.Tree) ([]state.LinkChange, error) {
	return PlanLinks(h.Paths.LinkDir, tree, h.known())
}

// Repair makes links and unit a version's, whatever is there. A version that was
// published again may bring other programs.
func (h *Host) Repair(tree versions.Tree) error {
	links, err := h.PlanLinks(tree)
	if err != nil {
		return err
	}
	if err := h.Claim(links); err != nil {
		return fmt.Errorf("keep what was here before: %w", err)
	}
	if err := h.Link(links); err != nil {
		return fmt.Errorf("repair the links: %w", err)
	}
	if err := h.PlaceUnit(tree); err != nil {
		return fmt.Errorf("repair the agent's unit: %w", err)
	}
	return h.Disclaim(tree)
}

// LinkUpdater makes the updater's own link the version's, where the version
// brings an updater of ours.
func (h *Host) LinkUpdater(tree versions.Tree) error {
	changes, err := PlanUpdaterLink(h.Paths.LinkDir, tree)
	if err != nil {
		return err
	}
	return ApplyLinks(changes, h.Paths.Original())
}

// inside reports whether a path without links is in a folder, which an
// administrator may have put elsewhere and left a link to.
func inside(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && strings.HasPrefix(path, real+"/")
}
