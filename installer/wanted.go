package installer

import (
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// wanted is a release that is to be on disk, whole.
type wanted struct {
	version.Release
	Config state.Config
	Spec   state.Spec // with proxy and group filled in
	SHA256 string     // of a release that was published again: what is on disk is not it
	// BelowMinimum: by root's word, the policy's minimum and withdrawn versions do not count.
	BelowMinimum bool
	// Unasked: the owner's policy is not asked. An open transaction goes back to it.
	Unasked bool
	Retried bool // nobody has to run the command again: the next tick tries
}

// accepts reports whether a tree is the release that is meant: not the copy of an agent
// that no tarball brought.
func (w wanted) accepts(tree versions.Tree) bool {
	return tree.Origin == "" && (w.SHA256 == "" || tree.SHA256 == w.SHA256)
}

// intent is a request that was decided on, for a release that need not be on disk.
type intent struct {
	wanted
	Request transaction.Request
	Jitter  time.Duration
}

// releaseOf is the release that find names.
func releaseOf(a find.Answer) version.Release {
	return version.Release{Version: a.Version, Edition: a.Edition}
}

// named is a release of which no more is known than its name.
func named(r version.Release) state.Tree { return state.Tree{Release: r} }

// pinning is the command that installs a version.
func pinning(t, active version.Release) string {
	pin := "teleport-update pin " + t.Version
	if version.Compare(t.Version, active.Version) < 0 {
		pin += " --allow-downgrade"
	}
	return pin
}
