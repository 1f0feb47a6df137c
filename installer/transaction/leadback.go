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

// leadBack makes an undoing lead the agent's link to the version that runs, on whose database the agent is started, if
// yesterday's records and links came back. If somebody took link or unit away, the undoing brings them back with the version.
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

// runsApart returns the version of the store that serves, if it is not the active one: yesterday's records came back under it.
func runsApart(h *host.Host, sight Sight, active version.Release) (runs versions.Tree, ok bool) {
	r, apart := servesApart(h, sight, active)
	if !apart {
		return runs, false
	}
	runs, ok, err := h.Store.Lookup(r)
	return runs, ok && err == nil
}

// servesApart is runsApart, also for a version that is not whole on disk any more.
func servesApart(h *host.Host, sight Sight, active version.Release) (serves version.Release, apart bool) {
	for _, p := range sight.serving() {
		r, ours := h.Store.ReleaseOf(p.Exe)
		switch {
		case !ours:
		case r.Version == active.Version && sameEdition(r, active):
			return r, false
		case !apart:
			serves, apart = r, true
		}
	}
	return serves, apart
}

// runningLinked refuses a change that could not be undone: a version other than the active one runs, and an undoing would lead the
// agent's link to another program, since the link is a file of its own, or the version that runs is not whole on disk.
func runningLinked(h *host.Host, sight Sight, active version.Release) error {
	r, apart := servesApart(h, sight, active)
	if !apart {
		return nil
	}
	link := filepath.Join(h.Paths.LinkDir, host.AgentName)
	program, _ := filepath.EvalSymlinks(link)
	if led, ours := h.Store.ReleaseOf(program); ours && led.Version == r.Version && sameEdition(led, r) {
		return nil
	}
	const why = "if the change had to be undone, the agent would not start again on its database"
	runs, whole := runsApart(h, sight, active)
	if !whole {
		return failure.Refuse("the agent runs version %s, which is not whole on disk, and %s leads to another program: %s; "+
			"`teleport-update pin %s` takes over the version that runs, or set the cluster to it", r.Short(), link, why, r.Version)
	}
	info, err := os.Lstat(link)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if same, err := host.SameContent(runs.Binary(host.AgentName), link); same || err != nil {
		return err
	}
	return failure.Refuse("%s is a program of its own, and the agent runs version %s: %s; move the file away, and run the command again", link,
		r.Short(), why)
}
