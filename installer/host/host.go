// Package host is about the updater's places on this host: the links to a version's programs, the
// agent's unit and how it is enabled, the updater's own units. It checks all of it, puts a version
// there, and puts back what was there before.
//
// Everything here changes files only, and durably; the caller has to make systemd read its files
// again. Files from a place that becomes ours are kept: see Originals.
package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
	Labels  selinux.Labels // SELinux labels, for programs
	// TimerLater leaves the updater's own timer out until another updater is replaced: one
	// of them is on at a time.
	TimerLater bool
	// OthersRoot is the root of the tree in which other updaters are looked for; empty is /.
	OthersRoot string

	command *commandOnce // of the agent's unit; nil: it is read each time
}

// ForOneLook returns the host for a caller that looks at it once, as a survey does: the files of the agent's unit are
// read when they are first asked for.
func ForOneLook(h *Host) *Host {
	if h.command != nil {
		return h
	}
	once := *h
	once.command = new(commandOnce)
	return &once
}

// configDir returns the folder in which units are enabled, and in which administrators have their drop-ins.
func (h *Host) configDir() string {
	if !h.systemdReads() {
		return h.Paths.UnitDir
	}
	return layout.ConfigDir
}

// systemdReads reports whether systemd reads the folder of units by itself. Any other folder is in
// a tree that is no host's.
func (h *Host) systemdReads() bool {
	switch h.Paths.UnitDir {
	case layout.UnitDir, layout.ConfigDir, layout.PackageUnitDir, layout.OldPackageUnitDir:
		return true
	}
	return false
}

// othersAt returns the files of a pattern in the tree in which other updaters are looked for.
func othersAt(h *Host, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join("/", h.OthersRoot, pattern))
	return found
}

// Exists reports whether a name is taken, by anything.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Absent reports whether nothing is at a path, for certain: a path that cannot be looked at is neither
// absent nor known to exist.
func Absent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Usual reports whether the folders are an ordinary host's: only these can be a package's.
func (h *Host) Usual() bool {
	return h.Paths.LinkDir == layout.LinkDir && h.Paths.DataDir == layout.DataDir
}

// inside reports whether a path without links is in a folder, which an
// administrator may have put elsewhere and left a link to.
func inside(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && strings.HasPrefix(path, real+"/")
}
