package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"teleport-update/installer/state"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// PlanLinks returns what must change in linkDir so that every program of a
// tree is linked, sorted by name and teleport last. Links into the versions
// folder under names that the tree does not have give way to what stood there
// before they were made, as far as original knows it by path; other names are
// never touched. teleport-update is left out, see PlanUpdaterLink. Whatever
// link or regular file has the name of a program is replaced (RFD 0169 §Runtime
// step 8); a folder or anything else is an error. Nothing is changed yet.
func PlanLinks(linkDir string, to versions.Tree, original map[string]state.Before) ([]state.LinkChange, error) {
	want, err := linksOf(to, linkDir)
	if err != nil {
		return nil, err
	}
	ours, err := storeOf(to).LinksInto(linkDir)
	if err != nil {
		return nil, fmt.Errorf("plan links: %w", err)
	}
	for _, path := range ours {
		if _, ok := want[path]; !ok && filepath.Base(path) != UpdaterName {
			want[path] = original[path].Link
		}
	}
	changes, err := planChanges(want)
	for n, c := range changes {
		if c.Target == "" {
			changes[n].PutBack = original[c.Path].Saved
		}
	}
	return changes, err
}

// storeOf returns the store that a tree is in.
func storeOf(t versions.Tree) *versions.Store {
	s := versions.NewStore(filepath.Dir(t.Dir))
	s.Programs = filepath.Dir(t.ProgramsDir())
	return s
}

// PlanUpdaterLink is PlanLinks for teleport-update alone: it returns one change
// or none. A release that does not bring this program leaves the link as it is.
func PlanUpdaterLink(linkDir string, to versions.Tree) ([]state.LinkChange, error) {
	if !to.HasUpdater() {
		return nil, nil
	}
	return planChanges(map[string]string{filepath.Join(linkDir, UpdaterName): to.Binary(UpdaterName)})
}

// linksOf returns the path and target of each link that the tree should have.
func linksOf(t versions.Tree, linkDir string) (map[string]string, error) {
	names, err := t.Binaries()
	if err != nil {
		return nil, err
	}
	links := make(map[string]string)
	for _, name := range names {
		if name != UpdaterName {
			links[filepath.Join(linkDir, name)] = t.Binary(name)
		}
	}
	return links, nil
}

// planChanges returns the other changes, too, if the error is an *occupiedError.
func planChanges(want map[string]string) (changes []state.LinkChange, occupied error) {
	for path, target := range want {
		before, err := beforeOf(path)
		if InTheWay(err) != "" {
			occupied = fmt.Errorf("plan links: %w", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("plan links: %w", err)
		}
		if before != (state.Before{Link: target}) {
			changes = append(changes, state.LinkChange{Path: path, Target: target, Before: before})
		}
	}
	slices.SortFunc(changes, func(a, b state.LinkChange) int { return compareNames(a.Path, b.Path) })
	return changes, occupied
}

// compareNames sorts by name with teleport last: while the links change, the
// agent is the old one, and its helpers are never older than it.
func compareNames(a, b string) int {
	a, b = filepath.Base(a), filepath.Base(b)
	if a != b && (a == AgentName || b == AgentName) {
		if a == AgentName {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// ApplyLinks makes the changes in order, durably. Before that it saves the regular files that they
// replace to originalDir. It can be repeated after it was interrupted. A file that came to stand in
// the way after the plan was made is an error, for it was not saved.
func ApplyLinks(changes []state.LinkChange, originalDir string) error {
	for _, c := range changes {
		if err := save(c, originalDir); err != nil {
			return fmt.Errorf("save %s: %w", c.Path, space.Explain(err, filepath.Dir(originalDir)))
		}
	}
	for _, c := range changes {
		if err := apply(c, originalDir); err != nil {
			return space.Explain(err, filepath.Dir(c.Path))
		}
	}
	return syncFolders(changes)
}

// RevertLinks puts back what stood there before the changes, durably. It can be repeated, and it
// does as much as it can: the error says what is left to a person. Names that were added go first:
// to put another one back takes a temporary name, and there may be no room for it.
func RevertLinks(changes []state.LinkChange, originalDir string) error {
	var errs []error
	added := func(c state.LinkChange) bool { return c.Before == state.Before{} }
	for _, c := range changes {
		if added(c) {
			errs = append(errs, set(c.Path, "", false))
		}
	}
	for _, c := range changes {
		if added(c) {
			continue
		}
		switch {
		case c.Before.Saved != "":
			errs = append(errs, restore(c.Path, c.Before.Saved, originalDir))
		case c.PutBack != "":
			errs = append(errs, takeBack(c))
		default:
			errs = append(errs, set(c.Path, c.Before.Link, false))
		}
	}
	errs = append(errs, syncFolders(changes))
	return errors.Join(errs...)
}

// LedBack returns the changes with a way back for the agent's link that leads to a version, wherever the link leads now. If a file stood
// in its place, it still goes back to that file.
func LedBack(changes []state.LinkChange, linkDir string, to versions.Tree) []state.LinkChange {
	changes = slices.Clone(changes)
	link, before := filepath.Join(linkDir, AgentName), state.Before{Link: to.Binary(AgentName)}
	n := slices.IndexFunc(changes, func(c state.LinkChange) bool { return c.Path == link })
	switch {
	case n < 0: // it leads to the version to switch to already
		now, err := beforeOf(link)
		if err != nil || now == before {
			return changes
		}
		return append(changes, state.LinkChange{Path: link, Target: now.Link, Before: before, Stood: now.Link})
	case changes[n].Before.Saved == "":
		changes[n].Stood, changes[n].Before = changes[n].Before.Link, before
	}
	return changes
}

// Reversed returns the changes that made the links a tree's, by the changes that take them back.
func Reversed(back []state.LinkChange, from versions.Tree) []state.LinkChange {
	var changes []state.LinkChange
	for _, b := range back {
		c := state.LinkChange{Path: b.Path, Target: b.Before.Link, Before: state.Before{Link: b.Target, Saved: b.PutBack}}
		if b.Before.Saved != "" {
			c.Target = from.Binary(filepath.Base(b.Path)) // somebody's file is in its place since
		}
		changes = append(changes, c)
	}
	return changes
}

// Begun leaves out the changes that were certainly not made: ApplyLinks replaces no file before all
// are saved. A file that was upgraded or removed by then is another's, and RevertLinks has nothing
// to put back.
func Begun(changes []state.LinkChange, originalDir string) []state.LinkChange {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.LinkChange) bool { return untouched(c, originalDir) })
}

// AgentLinkIsBack reports whether the place of the agent's own link holds what stood there before
// the changes: that link decides which version is started.
func AgentLinkIsBack(changes []state.LinkChange) bool {
	return !slices.ContainsFunc(changes, func(c state.LinkChange) bool { return filepath.Base(c.Path) == AgentName && !isBack(c) })
}

// AgentLinkLed reports whether the agent's own link led into a folder before the changes. It is false if a file stood there,
// which is a program of its own.
func AgentLinkLed(changes []state.LinkChange, dir string) bool {
	for _, c := range changes {
		if filepath.Base(c.Path) == AgentName {
			to := c.Before.Link
			if to != "" && !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(c.Path), to)
			}
			return strings.HasPrefix(to, dir+"/") || inside(to, dir)
		}
	}
	return true // it is not changed
}

// CheckLinks returns the problems of a tree's links, a sentence each; nothing when all is well.
// Nothing is changed.
func CheckLinks(linkDir string, t versions.Tree) ([]string, error) {
	changes, err := PlanLinks(linkDir, t, nil)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, c := range changes {
		switch {
		case c.Target == "":
			problems = append(problems, fmt.Sprintf("%s leads to %s, which is not part of version %s", c.Path, c.Before.Link, t.Release))
		case c.Before.Saved != "":
			problems = append(problems, fmt.Sprintf("%s is a regular file, not a link to %s", c.Path, c.Target))
		case c.Before.Link != "":
			problems = append(problems, fmt.Sprintf("%s leads to %s, not to %s", c.Path, c.Before.Link, c.Target))
		default:
			problems = append(problems, fmt.Sprintf("%s is missing; it should lead to %s", c.Path, c.Target))
		}
	}
	return problems, nil
}

func apply(c state.LinkChange, originalDir string) error {
	if c.PutBack != "" {
		return restore(c.Path, c.PutBack, originalDir)
	}
	return set(c.Path, c.Target, c.Before.Saved != "")
}
