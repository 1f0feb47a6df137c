package transaction

import (
	"os"
	"path/filepath"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// leadBack has an undoing lead the agent's link to what runs, on whose database the agent is started, where records and links of
// yesterday came back; and where somebody took link or unit away, it brings them back with the version.
func leadBack(h *host.Host, j *state.Journal, sight Sight, from versions.Tree) (err error) {
	runs, apart := runsApart(h, sight, from.Release)
	if !apart {
		runs = from
	}
	if apart || !host.Exists(filepath.Join(h.Paths.LinkDir, host.AgentName)) {
		j.Links = host.LedBack(j.Links, h.Paths.LinkDir, runs)
	}
	if host.UnitLost(j.Unit) {
		j.Unit, err = h.UnitOf(runs)
	}
	return err
}

// runsApart is the version of the store that serves where that is not the active one: records of yesterday came back under it.
func runsApart(h *host.Host, sight Sight, active version.Release) (runs versions.Tree, ok bool) {
	for _, p := range sight.serving() {
		r, ours := h.Store.ReleaseOf(p.Exe)
		switch {
		case !ours:
		case r.Version == active.Version && sameEdition(r, active):
			return runs, false
		case !ok:
			tree, whole, err := h.Store.Lookup(r)
			if ok = whole && err == nil; ok {
				runs = tree
			}
		}
	}
	return runs, ok
}

// runningLinked refuses a change where a file is in the place of the agent's link that is another program than the one that runs: an
// undoing would put the file back.
func runningLinked(h *host.Host, sight Sight, active version.Release) error {
	link := filepath.Join(h.Paths.LinkDir, host.AgentName)
	runs, apart := runsApart(h, sight, active)
	info, err := os.Lstat(link)
	if !apart || err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if same, err := host.SameContent(runs.Binary(host.AgentName), link); same || err != nil {
		return err
	}
	return failure.Refuse("%s is a program of its own, and the agent runs version %s: if the change had to be undone, the agent would not "+
		"start again on its database; move the file away, and run the command again", link, runs.Release.Short())
}
