package want

import (
	"time"

	"teleport-update/internal/version"
)

// Hold is the effect of a rollback by hand: it holds back the release that was left, and the one
// that the cluster wishes in its next answer. A later wish is not held back: the person has not
// seen it.
type Hold struct {
	Since time.Time
	Left  version.Release // the zero Release: not known
	Wish  version.Release // until it is heard, the last that was known
	Heard bool            // the cluster has answered since
}

// Holds reports whether a hold keeps an agent from a release. A nil Hold holds nothing.
func (h *Hold) Holds(r version.Release) bool {
	return h != nil && (h.Waits() || r == h.Wish || r == h.Left)
}

// Waits reports whether the cluster has still to name the wish that is held back. A hold that
// names no release that was left was complete with the rollback.
func (h *Hold) Waits() bool { return !h.Heard && h.Left.Version != "" }
