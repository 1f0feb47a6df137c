package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"teleport-update/internal/version"
)

// Goals of a rollback if the order names no version.
const (
	BackToStart    = "start"    // the start version of the rollout
	BackToPrevious = "previous" // what most hosts of the group ran when the rollout began
)

// setPreviousVersion keeps the version that most hosts of a group run when the rollout
// begins, at the first complete counts. If the group has started before these counts, some
// hosts are on the target already, and their previous version is unknown.
func (s *step) setPreviousVersion() {
	g := s.g
	if g.PreviousVersion != "" || s.n.Present == 0 {
		return
	}
	most, count, of := Semver(""), 0, 0
	for v, n := range s.n.Versions {
		if v == "" || v == s.r.Spec.TargetVersion && g.State != Unstarted {
			continue
		}
		of += n
		if n > count || n == count && version.Compare(string(v), string(most)) > 0 {
			most, count = v, n
		}
	}
	if most != "" {
		g.PreviousVersion, g.PreviousOthers, s.e.changed = most, of-count, true
	}
}

// goesBackTo returns the group's version after a rollback, or why there is none.
func (s *step) goesBackTo() (to Semver, why string) {
	target := s.r.Spec.TargetVersion
	switch s.to {
	case "", BackToStart:
		to = s.r.Spec.StartVersion
		if to == target {
			return "", fmt.Sprintf("there is no other version to go back to: the start version is %s, too; name one with --to", target)
		}
	case BackToPrevious:
		to = s.g.PreviousVersion
		if to == "" {
			return "", "nobody knows what its hosts ran when the rollout began: none reported; name a version with --to"
		}
	default:
		if err := to.UnmarshalText([]byte(s.to)); err != nil || to == "" {
			return "", fmt.Sprintf("--to %s: it is neither start, previous nor a version", excerpt(s.to))
		}
	}
	if to == target {
		return "", fmt.Sprintf("version %s is the target of the rollout: there is nothing to go back to", to)
	}
	return to, ""
}

func (s *step) refuseRollback() string {
	_, why := s.goesBackTo()
	return why
}

func (s *step) rollBack() {
	to, _ := s.goesBackTo()
	s.move(RolledBack, ManualRollback, func(s *step) {
		s.g.Halted, s.g.Conditions, s.g.RollbackVersion = nil, nil, to
	})
	s.e.out.Steps[len(s.e.out.Steps)-1].Message = s.whoGoesBack(to)
}

// whoGoesBack says which hosts that report go from which version to which.
func (s *step) whoGoesBack(to Semver) string {
	var parts []string
	older, stay := 0, s.n.Versions[to]
	for _, v := range slices.SortedFunc(maps.Keys(s.n.Versions), func(a, b Semver) int { return version.Compare(string(b), string(a)) }) {
		n := s.n.Versions[v]
		switch {
		case v == to:
			continue
		case v == "":
			parts = append(parts, fmt.Sprintf("%s without an agent %s %s", hosts(n), verb("install", n), to))
			continue
		case version.Compare(string(v), string(to)) > 0:
			older += n
		}
		parts = append(parts, fmt.Sprintf("%s %s from %s to %s", hosts(n), verb("go", n), v, to))
	}
	if stay > 0 {
		parts = append(parts, fmt.Sprintf("%s %s on %s already", hosts(stay), areOf(stay), to))
	}
	switch {
	case s.e.uncounted && s.n.Present > 0:
		parts = append(parts, fmt.Sprintf("so far %s of the group %s reported; all are told to go to %s", hosts(s.n.Present),
			haveOf(s.n.Present), to))
	case s.e.uncounted:
		parts = append(parts, fmt.Sprintf("so far no host of the group has reported; all are told to go to %s", to))
	case s.n.Present == 0:
		parts = append(parts, fmt.Sprintf("no host of the group reports; all are told to go to %s", to))
	}
	if older > 0 {
		parts = append(parts, fmt.Sprintf("%s %s to an older version, with the database of when %s last ran there: what was "+
			"written since is not in it, and a host without one refuses",
			hosts(older), verb("go", older), to))
	}
	if to == s.g.PreviousVersion && s.g.PreviousOthers > 0 {
		parts = append(parts, fmt.Sprintf("%s ran another version than %s when the rollout began", hosts(s.g.PreviousOthers), to))
	} else if s.g.PreviousVersion != "" && to != s.g.PreviousVersion {
		parts = append(parts, fmt.Sprintf("most hosts ran %s when the rollout began (--to previous)", s.g.PreviousVersion))
	}
	return strings.Join(parts, "; ")
}

// back is the version for the hosts of a group that was rolled back.
func (r *Rollout) back(g *GroupStatus) Semver {
	if g.RollbackVersion != "" {
		return g.RollbackVersion
	}
	return r.Spec.StartVersion // of a rollout that an older server has written
}

// Goals returns a function that maps the name of a group to the version that its hosts shall reach: the target or, if
// the group was rolled back, the version of the rollback. Other hosts get the answer of the last group. The result is
// empty without a version. v and r may be nil.
func Goals(v *Version, r *Rollout) func(group string) Semver {
	goals, otherwise := make(map[string]Semver), Semver("")
	if v != nil {
		otherwise = v.Spec.Agents.TargetVersion
	}
	if v != nil && r != nil && r.Of(v) {
		for i := range r.Status.Groups {
			g := &r.Status.Groups[i]
			goals[g.Name] = r.Spec.TargetVersion
			if g.State == RolledBack {
				goals[g.Name] = r.back(g)
			}
			otherwise = goals[g.Name]
		}
	}
	return func(group string) Semver {
		if goal, known := goals[group]; known {
			return goal
		}
		return otherwise
	}
}

// Versions returns all versions that hosts may be sent to, each once, the target first.
func (r *Rollout) Versions() []Semver {
	list := []Semver{r.Spec.TargetVersion, r.Spec.StartVersion}
	for i := range r.Status.Groups {
		if g := &r.Status.Groups[i]; g.State == RolledBack {
			list = append(list, r.back(g))
		}
	}
	var once []Semver
	for _, v := range list {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}
