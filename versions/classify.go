package versions

import (
	"slices"
)

// RetainInput is everything on which the removal of entries depends. If it is not complete,
// nothing may be removed: see Store.Retain.
type RetainInput struct {
	Entries []Entry // all of the versions folder, see Store.List
	// Keep are the releases that are needed by name: the active one, the
	// previous one, and the releases in the journal. Without an edition, all
	// editions of the version are meant. If it is empty, nobody knows which
	// release is active.
	Keep []Release
	// Failed is a release that failed and is tried again; its tree is kept if it came from the
	// tarball with that SHA-256.
	Failed       Release
	FailedSHA256 string
	// Linked and Running are names of entries: a link leads into them, or a process executes from
	// them.
	Linked  []string
	Running []string
}

// Verdict is the decision about one entry.
type Verdict struct {
	Entry  Entry
	Keep   bool   // false: it may be removed
	Bare   bool   // it is kept without its database backup
	Reason string // why, in a few words
}

// Classify decides for each entry whether it may be removed. It is a pure table: it depends on its
// input alone. An entry stays unless it is certainly ours and certainly not needed.
func Classify(in RetainInput) []Verdict {
	verdicts := make([]Verdict, 0, len(in.Entries))
	for _, e := range in.Entries {
		keep, reason := in.judge(e)
		v := Verdict{Entry: e, Keep: keep, Reason: reason}
		if !keep && in.failed(e) {
			v.Keep, v.Bare, v.Reason = true, true, "it failed and is tried again"
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func (in RetainInput) judge(e Entry) (keep bool, reason string) {
	switch {
	case slices.Contains(in.Linked, e.Name):
		return true, "a link leads into it"
	case slices.Contains(in.Running, e.Name):
		return true, "a process runs from it"
	}
	switch e.Kind {
	case Leftover:
		return false, "left by an interrupted removal"
	case Complete, Incomplete:
		if slices.ContainsFunc(in.Keep, e.mayBe) {
			return true, "the active or previous version, or one that the journal names"
		}
		if len(in.Keep) == 0 && len(in.Linked) == 0 {
			return true, "nobody can tell which version is active"
		}
		if e.Kind == Incomplete {
			return false, "incomplete (" + e.Why + ") and not needed"
		}
		return false, "not needed any more"
	case Reserved:
		return true, "not a version"
	}
	return true, "not ours"
}

// failed reports whether the entry is the release that is tried again.
func (in RetainInput) failed(e Entry) bool {
	return e.Kind == Complete && e.mayBe(in.Failed) && e.Tree.SHA256 == in.FailedSHA256
}

// mayBe reports whether the entry may hold that release: the versions are equal, and the editions,
// if both are known.
func (e Entry) mayBe(r Release) bool {
	return e.Release.Version == r.Version &&
		(e.Release.Edition == "" || r.Edition == "" || e.Release.Edition == r.Edition)
}
