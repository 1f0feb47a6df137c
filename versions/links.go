package versions

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/space"
)

// LinkChange is one name in the link folder that a switch changes, with what
// is needed to undo that. A list of them is written down, as JSON, before the
// first is applied.
type LinkChange struct {
	Path string `json:"path"`
	// Target is what the link will lead to; empty removes the link.
	Target string `json:"target,omitempty"`
	// PutBack is the name of a copy in the folder of originals: the regular file
	// that takes the link's place.
	PutBack string `json:"put_back,omitempty"`
	Before  Before `json:"before"`
}

// Before is what stood at a path: nothing (the zero Before), a link, or a
// regular file.
type Before struct {
	// Link is what the link led to.
	Link string `json:"link,omitempty"`
	// Saved is the name of the regular file's copy in the folder of originals.
	// It holds the digest of the content, so that a second save is the same.
	Saved string `json:"saved,omitempty"`
}

// PlanLinks returns what must change in linkDir so that every program of a
// tree is linked, sorted by name and teleport last. Links into the versions
// folder under names that the tree does not have give way to what stood there
// before they were made, as far as original knows it by path; other names are
// never touched. teleport-update is left out, see PlanUpdaterLink. Whatever
// link or regular file has the name of a program is replaced (RFD 0169 §Runtime
// step 8); a folder or anything else is an error. Nothing is changed yet.
func PlanLinks(linkDir string, to Tree, original map[string]Before) ([]LinkChange, error) {
	want, err := to.links(linkDir)
	if err != nil {
		return nil, err
	}
	ours, err := linksInto(linkDir, filepath.Dir(to.Dir))
	if err != nil {
		return nil, fmt.Errorf("plan links: %w", err)
	}
	for _, path := range ours {
		if _, ok := want[path]; !ok && filepath.Base(path) != updaterName {
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

// PlanUpdaterLink is PlanLinks for teleport-update alone: it returns one change
// or none. A release that does not bring this program leaves the link as it is.
func PlanUpdaterLink(linkDir string, to Tree) ([]LinkChange, error) {
	if !to.hasUpdater() {
		return nil, nil
	}
	return planChanges(map[string]string{filepath.Join(linkDir, updaterName): to.Binary(updaterName)})
}

// links returns the path and target of each link that the tree should have.
func (t Tree) links(linkDir string) (map[string]string, error) {
	names, err := t.Binaries()
	if err != nil {
		return nil, err
	}
	links := make(map[string]string)
	for _, name := range names {
		if name != updaterName {
			links[filepath.Join(linkDir, name)] = t.Binary(name)
		}
	}
	return links, nil
}

func planChanges(want map[string]string) ([]LinkChange, error) {
	var changes []LinkChange
	for path, target := range want {
		before, err := beforeOf(path)
		if err != nil {
			return nil, fmt.Errorf("plan links: %w", err)
		}
		if before == (Before{Link: target}) {
			continue
		}
		changes = append(changes, LinkChange{Path: path, Target: target, Before: before})
	}
	slices.SortFunc(changes, func(a, b LinkChange) int { return compareNames(a.Path, b.Path) })
	return changes, nil
}

// compareNames sorts by name with teleport last: while the links change, the
// agent is the old one, and its helpers are never older than it.
func compareNames(a, b string) int {
	a, b = filepath.Base(a), filepath.Base(b)
	if a != b && (a == agentName || b == agentName) {
		if a == agentName {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// ApplyLinks makes the changes in order, durably, after it has saved the
// regular files among what they replace to originalDir. It can be repeated
// after it was interrupted. A file that came to stand in the way after the plan
// was made is an error, for it was not saved.
func ApplyLinks(changes []LinkChange, originalDir string) error {
	for _, c := range changes {
		if err := save(c, originalDir); err != nil {
			return fmt.Errorf("save %s: %w", c.Path, space.Explain(err, filepath.Dir(originalDir)))
		}
	}
	for _, c := range changes {
		if err := c.apply(originalDir); err != nil {
			return space.Explain(err, filepath.Dir(c.Path))
		}
	}
	return syncFolders(changes)
}

// RevertLinks puts back what stood there before the changes, durably. It can be
// repeated, and it does as much as it can: the error says what is left to a
// person. Names that were added go first, for to put another back takes a
// temporary one, and there may be no room for it.
func RevertLinks(changes []LinkChange, originalDir string) error {
	var errs []error
	added := func(c LinkChange) bool { return c.Before == Before{} }
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

// Begun leaves out the changes that were certainly not made: ApplyLinks replaces no
// file before all are saved. One that was upgraded or removed by then is another's,
// and there is nothing for RevertLinks to put back.
func Begun(changes []LinkChange, originalDir string) []LinkChange {
	return slices.DeleteFunc(slices.Clone(changes), func(c LinkChange) bool { return c.untouched(originalDir) })
}

// CheckLinks says what is amiss with the links of a tree, a sentence each;
// nothing when all is well. Nothing is changed.
func CheckLinks(linkDir string, t Tree) ([]string, error) {
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

// LinkedBefore reports whether what stood in the place of a change was a link
// into the store.
func (s *Store) LinkedBefore(c LinkChange) (bool, error) {
	if c.Before.Link == "" {
		return false, nil
	}
	name, err := versionOfTarget(c.Path, c.Before.Link, s.Dir)
	return name != "", err
}

func (c LinkChange) apply(originalDir string) error {
	if c.PutBack != "" {
		return restore(c.Path, c.PutBack, originalDir)
	}
	return set(c.Path, c.Target, c.Before.Saved != "")
}
