// Package walks drives the built updater through random sequences of commands,
// failures and kills, and compares the host after each with a model of what the
// updater promises.
//
// The model is written from the rules (RFD 0169, the command line's help), not
// from the updater's code: it knows versions, the backups of their databases and
// the status, and nothing of journals or files. A command that is cut off may
// end in more than one state, so a host is compared with a set of models, and
// those that it contradicts are dropped. None left is a violation.
//
// A walk is made from a seed alone. What happens in it does not depend on what
// the updater does, so the same seed gives the same steps, and a walk that found
// a violation can be cut down to the steps that are needed for it.
package walks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Release is one version in one edition.
type Release = versions.Release

// Database is the agent's database: the schema that the newest agent left it
// with, and the rows that agents wrote.
type Database struct {
	Schema int
	Rows   []int
}

func (d *Database) equal(e *Database) bool {
	if d == nil || e == nil {
		return d == e
	}
	return d.Schema == e.Schema && slices.Equal(d.Rows, e.Rows)
}

// Backup is the database that a version had when it was left.
type Backup struct {
	Database *Database
	Taken    time.Duration // on the model's clock
	Damaged  bool
	Forced   bool // see Model
}

// Damage is what was done to the folder of a version.
type Damage int

const (
	Whole Damage = iota
	// Emptied: a program has no content, which every run notices.
	Emptied
	// Altered: a program has other content of the same size, which every run notices of the active version: it
	// changed after its manifest.
	Altered
	// Unmarked: the file that says the version is complete is gone.
	Unmarked
)

// Tree is one version on disk.
type Tree struct {
	Build  Build // what was downloaded
	Damage Damage
	Backup *Backup // nil: none that is complete
	// Qualified: the folder's name says the edition, for VERSION was taken.
	Qualified bool
}

// here reports whether the updater takes the folder for a version at all.
func (t *Tree) here() bool { return t != nil && t.Damage != Unmarked }

// Failed is the memory of a release that does not run.
type Failed struct {
	Release  Release
	Build    Build
	Attempts int
	Next     time.Duration // on the model's clock
}

// Interrupted counts how often a transaction to a release was cut off.
type Interrupted struct {
	Release Release
	Count   int
}

// Last is the outcome of the last attempt.
type Last struct {
	Target Release
	Result string
}

// Model is what a host should be. Releases, backups and databases it points to
// are never changed in place.
type Model struct {
	Clock time.Duration

	Proxy           bool // updates.yaml names it
	Enabled, Pinned bool
	Active          Release // zero: none
	Previous        Release
	Held, Refused   *Release
	HeldLeft        *Release // the version that the rollback left, held as well
	HeldHeard       bool     // find has answered since
	Failed          *Failed
	FailedBefore    []Failed // others, the last first
	Interrupted     *Interrupted
	Last            *Last
	FirstFailed     bool     // the first enable, by more than a refusal
	Recalled        *Release // the last answer of find

	Trees    map[Release]Tree
	Database *Database
	Had      bool // there was a database when the active version became that
	Noted    int  // its schema, which is noted; 0: there was none

	// Plain are the regular files in the link folder, and what they hold;
	// PlainUnit is the version whose unit file is there.
	Plain     map[string]string
	PlainUnit string
	// Before is what the first enable found.
	Before struct {
		Plain     map[string]string
		PlainUnit string
		Backup    *Backup
	}
	Missing    []string // links that somebody removed
	UnitEdited bool

	// Touched: a command was cut off since the last one that ended, so there may
	// be leftovers.
	Touched bool
	// Removing: the removal of a version was perhaps cut off; what is left of it
	// goes with the next version.
	Removing bool
	// Forced: a person insisted on a version without the database that belongs to
	// it.
	Forced bool
}

func (m *Model) clone() *Model {
	c := *m
	c.Trees = maps.Clone(m.Trees)
	c.Plain = maps.Clone(m.Plain)
	c.Missing = slices.Clone(m.Missing)
	return &c
}

// unlike leaves out models that say the same as one before them.
func unlike(models []*Model) (all []*Model) {
	said := map[string]bool{}
	for _, m := range models {
		if text := m.text(); !said[text] {
			said[text] = true
			all = append(all, m)
		}
	}
	return all
}

// text is all that a model says.
func (m *Model) text() string {
	flat := *m
	flat.Held, flat.HeldLeft, flat.Refused, flat.Failed, flat.Interrupted, flat.Last, flat.Recalled = nil, nil, nil, nil, nil, nil, nil
	flat.Database, flat.Trees, flat.FailedBefore = nil, nil, nil
	s := fmt.Sprintf("%+v %+v %+v %+v %+v %+v %+v %+v %+v %+v", flat, m.FailedBefore, deref(m.Held), deref(m.HeldLeft), deref(m.Refused), m.Failed, m.Interrupted, m.Last, deref(m.Recalled), m.Database)
	for _, r := range append(Releases(), newest) {
		if t := m.tree(r); t != nil {
			s += fmt.Sprint(r, t.Build, t.Damage, t.Qualified)
			if b := t.Backup; b != nil {
				s += fmt.Sprintf("%+v %v %v %v", b.Database, b.Taken, b.Damaged, b.Forced)
			}
		}
	}
	return s
}

// tree returns a version on disk, nil if there is none.
func (m *Model) tree(r Release) *Tree {
	if t, ok := m.Trees[r]; ok {
		return &t
	}
	return nil
}

// Build is one tarball that a version was published as.
type Build struct {
	Release Release
	Number  int    // a release that is published anew has another
	Runs    bool   // its agent starts
	Updater string // the path of the updater that it brings; empty for none
	Extra   string // a program that it brings besides
}

// Files are the programs of a release, sorted.
func (b Build) Files() []string {
	names := []string{"tctl", "teleport", "tsh"}
	switch b.Release.Version {
	case "1.0.0":
		names = append(names, "tbot")
	case "2.0.0":
		names = append(names, "fdpass-teleport", "tbot")
	}
	if b.Extra != "" {
		names = append(names, b.Extra)
	}
	slices.Sort(names)
	return names
}

// text is what a program of the release holds.
func (b Build) text(name string) string {
	if !b.Runs && name == "teleport" {
		return "#!/bin/sh\necho 'cannot start' >&2\nexit 1\n# " + fmt.Sprint(b) + "\n"
	}
	edition, fips := "", ""
	if b.Release.Edition.Enterprise() {
		edition = " Enterprise"
	}
	if b.Release.Edition.FIPS() {
		fips = " X:boringcrypto"
	}
	return fmt.Sprintf("#!/bin/sh\n[ \"$1\" = version ] && echo 'Teleport%s v%s git:v%s-0-gabc1234%s'\nexit 0\n# %v, %s\n",
		edition, b.Release.Version, b.Release.Version, fips, b, name)
}

// unit is the release's unit file.
func unitOf(v string) string {
	return "[Unit]\nDescription=Teleport " + v + "\n[Service]\nExecStart=/usr/local/bin/teleport start\n"
}

// edited stands for a unit file that somebody changed by hand.
const edited = "edited"

// damagedProgram is the one that Emptied and Altered are about.
const damagedProgram = "tsh"

// text is what a program of the tree holds, with what was done to it.
func (t Tree) text(name string) string {
	s := t.Build.text(name)
	switch {
	case name != damagedProgram:
	case t.Damage == Emptied:
		return ""
	case t.Damage == Altered:
		return strings.Repeat("x", len(s))
	}
	return s
}

// saysVersion is the version that a program names, empty if it names none.
func saysVersion(program string) string {
	_, rest, _ := strings.Cut(program, "echo 'Teleport")
	_, rest, _ = strings.Cut(rest, " v") // perhaps Enterprise
	v, _, _ := strings.Cut(rest, " ")
	return v
}

// Schema is that of the database which the release's agent makes.
func (b Build) Schema() int {
	switch b.Release.Version {
	case "1.0.0":
		return 1
	case "1.1.0", "1.1.1":
		return 2
	}
	return 3
}

// Releases are all that a walk knows, the oldest first.
func Releases() []Release {
	var all []Release
	for _, v := range []string{"1.0.0", "1.1.0", "1.1.1", "2.0.0"} {
		for _, e := range []version.Edition{version.OSS, version.Enterprise} {
			all = append(all, Release{Version: v, Edition: e})
		}
	}
	return all
}

// Shelf is what the mirror has of one release.
type Shelf struct {
	Build    Build
	Missing  bool // 404
	WrongSum bool // the checksum does not match
}

// Outside is what the updater meets on the network. Commands do not change it.
type Outside struct {
	Target  Release
	Auto    bool // agent_autoupdate
	Down    bool
	Shelves map[Release]Shelf
}
