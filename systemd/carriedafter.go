package systemd

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Overruled is a drop-in that systemd reads before that of Carried, and a directive that both set: the last one counts.
type Overruled struct{ File, Directive string }

// Overrules returns a drop-in of a unit whose word on a directive the one that is to be written would take back; nil if there is none.
// Until then a value of the unit itself comes before all drop-ins. loaded are the drop-ins that systemd has read: the folders may have
// others by now.
func (u Units) Overrules(c Carried, unit string, dirs, loaded []string) (*Overruled, error) {
	files, err := dropIns(unit, dirs)
	if err != nil {
		return nil, err
	}
	own := filepath.Base(u.CarriedFile())
	carried := settingsOf(c.DropIn)
	for _, file := range slices.Concat(files, loaded) {
		if filepath.Base(file) >= own {
			continue // it has the last word
		}
		content, err := readServiceFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // systemd has read a file that somebody removed since
		}
		if err != nil {
			return nil, err
		}
		for _, early := range settingsOf(content) {
			if slices.ContainsFunc(carried, early.isOverruledBy) {
				return &Overruled{file, early.name}, nil
			}
		}
	}
	return nil, nil
}

// settingsOf are the assignments of a file in sections of which directives are carried, the empty ones, too.
func settingsOf(content []byte) []assignment {
	return slices.DeleteFunc(writtenAssignments(content), func(a assignment) bool { return carriedDirectives[a.section] == nil })
}

// dependencies are directives of [Unit] whose values add up in any order, and that an empty value does not take back.
var dependencies = []string{
	"After", "Before", "Wants", "Requires", "Requisite", "BindsTo", "BindTo", "PartOf", "Upholds", "Conflicts", "RequiresMountsFor",
	"WantsMountsFor", "OnFailure", "OnSuccess", "PropagatesReloadTo", "PropagateReloadTo", "PropagatesStopTo", "PropagateReloadFrom",
	"ReloadPropagatedFrom", "StopPropagatedFrom", "JoinsNamespaceOf", "RequiresOverridable", "RequisiteOverridable",
}

// isOverruledBy reports whether a later assignment takes an earlier one back, or brings back what the earlier one took away.
func (a assignment) isOverruledBy(later assignment) bool {
	for _, kind := range []string{"Condition", "Assert"} {
		if strings.HasPrefix(a.name, kind) { // they add up; an empty one takes back all of its kind
			return a.value == "" && strings.HasPrefix(later.name, kind)
		}
	}
	if slices.Contains(dependencies, a.name) {
		return false
	}
	return slices.ContainsFunc(alsoSets(a.name), func(name string) bool { return slices.Contains(alsoSets(later.name), name) })
}

// alsoSets are the directives, by their names of today, that a directive sets.
func alsoSets(name string) []string {
	switch name {
	case "ReadWriteDirectories", "ReadOnlyDirectories", "InaccessibleDirectories":
		return []string{strings.TrimSuffix(name, "Directories") + "Paths"}
	case "TimeoutSec":
		return []string{"TimeoutStartSec", "TimeoutStopSec"}
	case "StartLimitInterval":
		return []string{"StartLimitIntervalSec"}
	}
	return []string{name}
}
