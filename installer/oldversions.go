package installer

import (
	"context"
	"fmt"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

// makeRoom removes what nothing needs before something new comes. While another
// process switches it does nothing: what that one is about to link is not linked
// yet.
func (o obtainer) makeRoom(ctx context.Context, remove func(context.Context, state.Config)) {
	unlock, err := state.Lock(ctx, o.m.Host.Paths.UpdateLock(), 0)
	if err != nil {
		return
	}
	defer unlock()
	// Another run may have switched since the caller looked.
	if c, err := o.m.FreshConfig(); err == nil {
		remove(ctx, c)
	}
}

// tidy removes old versions that a run was kept from removing, by a kill or an
// error of the disk: each is as large as a release, and it may be long until
// something new comes and makes room.
func (o obtainer) tidy(ctx context.Context, c state.Config) {
	if c.Spec.ActiveVersion == "" || !o.hasOldVersions(o.m.Needed(c)) {
		return
	}
	unlock, err := state.Lock(ctx, o.m.Host.Paths.FetchLock(), 0)
	if err != nil {
		return // something new comes
	}
	defer unlock()
	o.makeRoom(ctx, o.m.Retain)
}

// hasOldVersions reports whether there are folders of versions that may not be needed.
func (o obtainer) hasOldVersions(needed versions.Needed) bool {
	names := []string{needed.Failed.Version}
	for _, r := range needed.Releases {
		names = append(names, r.Version)
	}
	return o.m.Host.Store.HasOthers(names...)
}

// oldVersionsLeft says which versions stay on disk although nothing needs them, and why;
// empty if there are none. The next run removes a whole one without being asked: that
// is not worth a word.
func (o obtainer) oldVersionsLeft(c state.Config) string {
	needed := o.m.Needed(c)
	if c.Spec.ActiveVersion == "" || !o.hasOldVersions(needed) && !o.m.Host.Store.HasLeftovers() {
		return ""
	}
	verdicts, err := o.m.Host.Store.Judge(needed)
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
	return fmt.Sprintf("the removal of %s from %s did not end; the next run tries again, and `journalctl -t teleport-update "+
		"_UID=0` says what is in the way", strings.Join(left, ", "), o.m.Host.Store.Dir)
}
