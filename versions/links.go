package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// LinkChange is one name in the link folder that a switch changes, with what
// is needed to undo that. A list of them is written down, as JSON, before the
// first is applied.
type LinkChange struct {
	Path string `json:"path"`
	// Target is what the link will lead to; empty removes the link.
	Target string `json:"target,omitempty"`
	Before Before `json:"before"`
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
// folder under names that the tree does not have go away; other names are
// never touched. teleport-update is left out, see PlanUpdaterLink. Whatever
// link or regular file has the name of a program is replaced (RFD 0169 §Runtime
// step 8); a folder or anything else is an error. Nothing is changed yet.
func PlanLinks(linkDir string, to Tree) ([]LinkChange, error) {
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
			want[path] = ""
		}
	}
	return planChanges(want)
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

func beforeOf(path string) (Before, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Before{}, nil
	case err != nil:
		return Before{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return Before{Link: target}, err
	case info.Mode().IsRegular():
		digest, err := digestOf(path)
		return Before{Saved: filepath.Base(path) + "-" + digest[:min(len(digest), 16)]}, err
	case info.IsDir():
		return Before{}, fmt.Errorf("%s is a folder, and a link must go there: move it away", path)
	}
	return Before{}, fmt.Errorf("%s is neither a file nor a link, and a link must go there: move it away", path)
}

func digestOf(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// linksInto returns the links of a folder that lead into versionsDir, whether
// what they lead to exists or not. A folder that is not there has none.
func linksInto(dir, versionsDir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var links []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		name, err := versionOfLink(path, versionsDir)
		if err != nil {
			return nil, err
		}
		if name != "" {
			links = append(links, path)
		}
	}
	return links, nil
}

// versionOfLink returns the entry of versionsDir that a link leads into, by
// what it says and by where it ends; empty for a link that leads elsewhere.
func versionOfLink(path, versionsDir string) (string, error) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	if name := entryOf(target, versionsDir); name != "" {
		return name, nil
	}
	// The folder may have two names, of which the link uses the other.
	end, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EIO) {
		return "", err
	}
	if err != nil {
		return "", nil // dangling, or a circle: not into anything that exists
	}
	real, err := filepath.EvalSymlinks(versionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return entryOf(end, real), err
}

// entryOf returns the first name of path below dir, empty for a path that is
// not below it.
func entryOf(path, dir string) string {
	rel, err := filepath.Rel(dir, filepath.Clean(path))
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	name, _, _ := strings.Cut(rel, "/")
	return name
}

// ApplyLinks makes the changes in order, durably, after it has saved the
// regular files among what they replace to originalDir. It can be repeated
// after it was interrupted. A file that came to stand in the way after the plan
// was made is an error, for it was not saved.
func ApplyLinks(changes []LinkChange, originalDir string) error {
	for _, c := range changes {
		if err := save(c, originalDir); err != nil {
			return fmt.Errorf("save %s: %w", c.Path, asNoSpace(err, filepath.Dir(originalDir)))
		}
	}
	for _, c := range changes {
		if err := set(c.Path, c.Target, c.Before.Saved != ""); err != nil {
			return asNoSpace(err, filepath.Dir(c.Path))
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
		if c.Before.Saved != "" {
			errs = append(errs, restore(c, originalDir))
		} else {
			errs = append(errs, set(c.Path, c.Before.Link, false))
		}
	}
	errs = append(errs, syncFolders(changes))
	return errors.Join(errs...)
}

// CheckLinks says what is amiss with the links of a tree, a sentence each;
// nothing when all is well. Nothing is changed.
func CheckLinks(linkDir string, t Tree) ([]string, error) {
	changes, err := PlanLinks(linkDir, t)
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

func save(c LinkChange, originalDir string) error {
	if c.Before.Saved == "" {
		return nil
	}
	saved := filepath.Join(originalDir, c.Before.Saved)
	if _, err := os.Lstat(saved); err == nil {
		return nil // saves are whole or not there
	}
	if now, err := beforeOf(c.Path); err != nil {
		return err
	} else if now != c.Before {
		return fmt.Errorf("%s changed since the switch was planned", c.Path)
	}
	if err := durable.MkdirAll(originalDir, 0o755); err != nil {
		return err
	}
	return durable.CloneFile(c.Path, saved)
}

func restore(c LinkChange, originalDir string) error {
	info, err := os.Lstat(c.Path)
	if err == nil && info.Mode().IsRegular() {
		if now, err := beforeOf(c.Path); err != nil || now == c.Before {
			return err
		}
		return fmt.Errorf("%s is a file that we did not put there; it stays", c.Path)
	}
	return durable.CloneFile(filepath.Join(originalDir, c.Before.Saved), c.Path)
}

// set makes path a link to target, or removes the link where target is empty.
// A regular file gives way only if it was saved.
func set(path, target string, saved bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target == "" {
			return nil
		}
		if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		if now, err := os.Readlink(path); err != nil || now == target {
			return err
		}
	case !info.Mode().IsRegular() || !saved:
		return fmt.Errorf("%s is in the way and was not there when the switch was planned; it stays", path)
	}
	if target == "" {
		return durable.Unlink(path)
	}
	return durable.Relink(target, path)
}

func syncFolders(changes []LinkChange) error {
	done := make(map[string]bool)
	for _, c := range changes {
		dir := filepath.Dir(c.Path)
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := durable.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
