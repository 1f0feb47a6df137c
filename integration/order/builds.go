// Package order records the calls with which the built updater changes a host, and holds their order: what a later step
// counts on is on stable storage before that step. Neither kills nor power cuts show each missing sync.
package order

import (
	"fmt"
	"slices"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Release is one version in one edition.
type Release = versions.Release

// Build is one tarball that a version was published as.
type Build struct {
	Release Release
	Runs    bool   // its agent starts
	Updater string // the path of the updater that it brings; empty for none
	Extra   string // a program that it brings besides
}

// Files are the programs of a release, sorted.
func (b Build) Files() []string {
	names := []string{"tctl", "teleport", "tsh"}
	switch b.Release.Version {
	case "1.0.0":
		names = append(names, "tbot")
	case "2.0.0":
		names = append(names, "fdpass-teleport", "tbot")
	}
	if b.Extra != "" {
		names = append(names, b.Extra)
	}
	slices.Sort(names)
	return names
}

// text is what a program of the release holds.
func (b Build) text(name string) string {
	if !b.Runs && name == "teleport" {
		return "#!/bin/sh\necho 'cannot start' >&2\nexit 1\n# " + fmt.Sprint(b) + "\n"
	}
	edition, fips := "", ""
	if b.Release.Edition.Enterprise() {
		edition = " Enterprise"
	}
	if b.Release.Edition.FIPS() {
		fips = " X:boringcrypto"
	}
	return fmt.Sprintf("#!/bin/sh\n[ \"$1\" = version ] && echo 'Teleport%s v%s git:v%s-0-gabc1234%s'\nexit 0\n# %v, %s\n",
		edition, b.Release.Version, b.Release.Version, fips, b, name)
}

// unit is the release's unit file.
func unitOf(v string) string {
	return "[Unit]\nDescription=Teleport " + v + "\n[Service]\nExecStart=/usr/local/bin/teleport start\n"
}

// Releases are all that the mirror has, the oldest first.
func Releases() []Release {
	var all []Release
	for _, v := range []string{"1.0.0", "1.1.0", "1.1.1", "2.0.0"} {
		for _, e := range []version.Edition{version.OSS, version.Enterprise} {
			all = append(all, Release{Version: v, Edition: e})
		}
	}
	return all
}

// Shelf is what the mirror has of one release.
type Shelf struct {
	Build   Build
	Missing bool // 404
}

// Outside is what the updater meets on the network. Commands do not change it.
type Outside struct {
	Target  Release
	Auto    bool // agent_autoupdate
	Down    bool
	Shelves map[Release]Shelf
}
