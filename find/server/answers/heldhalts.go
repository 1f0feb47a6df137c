package answers

import (
	"maps"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
)

// heldHalts are halts of the groups of one rollout.
type heldHalts struct {
	target rollout.Semver
	begun  time.Time
	of     map[string]heldHalt // by group
}

// heldHalt is the halt of a group, and the trial that it is of.
type heldHalt struct {
	rollout.Halted
	begun, retried time.Time // StartTime and RetryTime of the group; zero of one that has not started
	written        bool      // the store has acknowledged it, and has not been read since
}

func heldHaltOf(g *rollout.GroupStatus) heldHalt {
	return heldHalt{Halted: *g.Halted, begun: g.StartTime, retried: g.RetryTime}
}

// isOver reports whether the group of the store has left the trial that was halted, or people have moved it since: the halt
// would stop what it knows nothing of. Canaries that went on by themselves have left nothing.
func (h heldHalt) isOver(g *rollout.GroupStatus) bool {
	switch {
	case g.State == rollout.Done || g.State == rollout.RolledBack:
		return true
	case !h.begun.IsZero() && g.StartTime.After(h.begun):
		return true
	case g.RetryTime.After(h.retried):
		return true
	}
	return isByHand(g.LastUpdateReason) && g.LastUpdateTime.After(h.Since)
}

func isByHand(r rollout.Reason) bool { return strings.HasPrefix(string(r), "manual_") }

// groups are the names of the groups of which nobody knows that the halt is written, sorted.
func (h *heldHalts) groups() []string {
	names := slices.Sorted(maps.Keys(h.of))
	return slices.DeleteFunc(names, func(name string) bool { return h.of[name].written })
}

// isOf reports whether the halts are of a rollout, which may be nil.
func (h *heldHalts) isOf(r *rollout.Rollout) bool {
	return r != nil && h.target == r.Spec.TargetVersion && h.begun.Equal(r.Status.StartTime)
}

// hold keeps the halts of a rollout, and no others than of this rollout. It returns the groups of those that were not held
// before.
func (h *heldHalts) hold(r *rollout.Rollout) (more []string) {
	if !h.isOf(r) {
		*h = heldHalts{target: r.Spec.TargetVersion, begun: r.Status.StartTime}
	}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		held, is := h.of[g.Name]
		if g.Halted == nil || is && !held.isOver(g) {
			continue
		}
		if h.of == nil {
			h.of = make(map[string]heldHalt)
		}
		h.of[g.Name] = heldHaltOf(g)
		more = append(more, g.Name)
	}
	return more
}

// over returns a rollout, which may be nil, with the halts that are held of it; the rollout itself if there are none.
func (h *heldHalts) over(r *rollout.Rollout) *rollout.Rollout {
	if !h.isOf(r) {
		return r
	}
	next := r
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		held, is := h.of[g.Name]
		if !is || g.Halted != nil || held.isOver(g) {
			continue
		}
		if next == r {
			next = r.Clone()
		}
		g = &next.Status.Groups[i]
		g.Halted, g.LastUpdateTime, g.LastUpdateReason = &held.Halted, held.Since, held.Reason
	}
	return next
}

// letGo lets go of the halts that were laid over a rollout, and reports whether there were any.
func (h *heldHalts) letGo(seen *rollout.Rollout) bool {
	before := len(h.of)
	if !h.isOf(seen) {
		return false
	}
	for i := range seen.Status.Groups {
		g := &seen.Status.Groups[i]
		if held, is := h.of[g.Name]; is && g.Halted != nil && *g.Halted == held.Halted {
			delete(h.of, g.Name)
		}
	}
	return len(h.of) < before
}

// settle lets go of the halts that need not be held any more: they are in the rollout of the store, whoever wrote them, or
// what they stopped is over. They would come back when a person lets the group go on.
func (h *heldHalts) settle(r *rollout.Rollout) (written, over []string) {
	if r != nil && !h.isOf(r) {
		over = h.groups()
		h.of = nil
		return nil, over
	}
	for i := 0; r != nil && i < len(r.Status.Groups); i++ {
		g := &r.Status.Groups[i]
		held, is := h.of[g.Name]
		switch {
		case !is:
			continue
		case held.written && (g.Halted != nil || held.isOver(g)):
			// which was to be expected
		case g.Halted != nil:
			written = append(written, g.Name)
		case held.isOver(g):
			over = append(over, g.Name)
		default:
			continue
		}
		delete(h.of, g.Name)
	}
	return written, over
}
