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

// heldHalt is the halt of a group in one trial.
type heldHalt struct {
	rollout.Halted
	begun, retried time.Time // StartTime and RetryTime of the group; zero if it has not started
	written        bool      // the store has acknowledged it, and has not been read since
}

func heldHaltOf(g *rollout.GroupStatus) heldHalt {
	return heldHalt{Halted: *g.Halted, begun: g.StartTime, retried: g.RetryTime}
}

// isOver reports whether the group in the store has left the halted trial, or people have moved it since the halt: the halt
// must not stop another trial. A group whose canaries went on by themselves has not left its trial.
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

// groups returns the sorted names of the groups whose halts nobody knows to be written.
func (h *heldHalts) groups() []string {
	names := slices.Sorted(maps.Keys(h.of))
	return slices.DeleteFunc(names, func(name string) bool { return h.of[name].written })
}

// isOf reports whether the halts belong to a rollout, which may be nil.
func (h *heldHalts) isOf(r *rollout.Rollout) bool {
	return r != nil && h.target == r.Spec.TargetVersion && h.begun.Equal(r.Status.StartTime)
}

// hold keeps the halts of a rollout, and drops the halts of any other. It returns the groups with a new halt.
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

// over returns a rollout, which may be nil, with its held halts; the rollout itself if there are none.
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

// letGo drops the halts that were laid over a rollout, and reports whether there were any.
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

// settle drops halts that need not be held any longer: they are in the store's rollout, whoever wrote them, or the halted
// trial is over. Otherwise they would come back when a person lets the group go on.
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
			// as expected
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
