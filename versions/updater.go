package versions

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"teleport-update/internal/version"
)

// updaterModule is the main module's path in our own program's build
// information.
const updaterModule = "teleport-update"

// Updater is the teleport-update that a release carries.
type Updater struct {
	Path string // of the program
	// Ours reports that it is this program. Teleport's own releases carry another program of the same
	// name.
	Ours bool
	// Version is the version that its build was stamped with; empty if there is no stamp.
	Version string
}

// Updater describes the updater of this release, if it has one. It reads the program's build
// information, and does not run it.
func (t Tree) Updater() (u Updater, ok bool) { return UpdaterAt(t.Binary(updaterName)) }

// UpdaterAt is Updater for a program at any path.
func UpdaterAt(path string) (u Updater, ok bool) {
	u.Path = path
	info, err := buildinfo.ReadFile(u.Path)
	if err != nil {
		// A script, or a program in another language, is not ours
		_, err := os.Lstat(u.Path)
		return u, err == nil
	}
	u.Ours = info.Main.Path == updaterModule
	u.Version = StampedVersion(info)
	return u, true
}

// stampTag begins the build tag that names the version of a build. Of a command line under
// -trimpath, build information keeps only the tags, and it has no version of its own for a module
// at version 2 or beyond.
const stampTag = "release_"

// StampTag is the build tag that stamps a build with a version.
func StampTag(v string) string { return stampTag + strings.ReplaceAll(v, "-", "_") }

// StampedVersion returns the version that a build was stamped with: from a build tag as
// release_1.2.3_rc.1, in which "_" replaces "-" because no tag may hold "-". It is empty if the
// build has no stamp.
func StampedVersion(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key != "-tags" {
			continue
		}
		for tag := range strings.SplitSeq(s.Value, ",") {
			stamp, ok := strings.CutPrefix(tag, stampTag)
			if v, err := version.Parse(strings.ReplaceAll(stamp, "_", "-")); ok && err == nil {
				return v
			}
		}
	}
	return ""
}

// Binaries returns the names in bin/ that may be linked, sorted. It leaves out a teleport-update
// that is not this program's (Teleport's own releases carry one). The program's build information
// shows that, without running it.
func (t Tree) Binaries() ([]string, error) {
	entries, err := os.ReadDir(t.Binary(""))
	if err != nil {
		return nil, fmt.Errorf("list programs of version %s: %w", t.Release, err)
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == updaterName && !t.HasUpdater() {
			continue
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// HasUpdater reports whether the release brings an updater that is this program.
func (t Tree) HasUpdater() bool {
	u, ok := t.Updater()
	return ok && u.Ours
}
