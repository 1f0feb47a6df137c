package installer

import (
	"fmt"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

// hasOldVersions reports whether there are folders of versions that may not be needed.
func (i *Installer) hasOldVersions(needed versions.Needed) bool {
	names := []string{needed.Failed.Version}
	for _, r := range needed.Releases {
		names = append(names, r.Version)
	}
	return i.Store.HasBesides(names...)
}

// oldVersionsLeft says which versions stay on disk although nothing needs them, and why;
// empty where there are none. The next run removes a whole one without being asked: that
// is not worth a word.
func (i *Installer) oldVersionsLeft(c state.Config) string {
	needed := i.Needed(c)
	if c.Spec.ActiveVersion == "" || !i.hasOldVersions(needed) && !i.Store.HasLeftovers() {
		return ""
	}
	verdicts, err := i.Store.Judge(needed)
	if err != nil {
		return fmt.Sprintf("old versions stay on disk: %v", err)
	}
	var left []string
	for _, v := range verdicts {
		if !v.Keep && v.Entry.Kind != versions.Complete {
			left = append(left, v.Entry.Name)
		}
	}
	if left == nil {
		return ""
	}
	return fmt.Sprintf("the removal of %s from %s did not end; the next run tries again, and `journalctl -t teleport-update` says what is in the way", strings.Join(left, ", "), i.Store.Dir)
}
