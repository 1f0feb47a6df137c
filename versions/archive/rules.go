package archive

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
)

// rule is a rule for entries, applied to one entry.
type rule struct {
	name   string
	broken bool
	text   string // how the entry breaks it
}

// rules returns the rules for an entry, given the entries that a has seen; each rule counts by
// itself.
func (a *reader) rules(e entry) []rule {
	before := a.seen[e.path]
	unit := e.rel == unitInside || e.rel == fipsInside
	control := func(r rune) bool { return unicode.IsControl(r) || r == '\\' }
	return []rule{
		{"sparse", e.sparse(), fmt.Sprintf("entry %.80q is a sparse file", e.Name)},
		{"kind", e.kind == other, fmt.Sprintf("entry %.80q is neither a file nor a folder but %s", e.Name, e.typeName())},
		// The raw bits, not the bits of FileInfo: a careless extractor would apply these.
		{"mode", e.kind == file && e.Mode&0o7000 != 0,
			fmt.Sprintf("entry %.80q has mode %#o: no setuid, setgid or sticky files", e.Name, e.Mode)},
		{"name-length", len(e.Name) > MaxNameLength, fmt.Sprintf("entry %.80q… has a name of more than %d bytes", e.Name, MaxNameLength)},
		{"depth", strings.Count(e.trimmed(), "/") >= MaxDepth, fmt.Sprintf("entry %.80q lies more than %d folders deep", e.Name, MaxDepth)},
		{"name", e.path == "", fmt.Sprintf("entry %.80q has a name that is not clean and relative", e.Name)},
		{"characters", strings.ContainsFunc(e.Name, control),
			fmt.Sprintf("entry %.80q has a control character or a backslash in its name", e.Name)},
		{"top", e.path != "" && !tops[e.top], fmt.Sprintf("entry %.80q is not in a folder teleport or teleport-ent", e.Name)},
		{"one-top", tops[e.top] && a.top != "" && a.top != e.top, fmt.Sprintf("it has two top folders, %s and %s", a.top, e.top)},
		{"top-file", e.kind == file && tops[e.path], fmt.Sprintf("its top folder %q is a file", e.Name)},
		{"below-file", a.belowFile(e), fmt.Sprintf("entry %.80q lies below a file", e.Name)},
		{"twice", before > implied || before == implied && e.kind != folder, fmt.Sprintf("entry %.80q comes twice", e.Name)},
		{"size", e.kind != folder && e.Size > a.limits.File,
			fmt.Sprintf("entry %.80q is of %d bytes, more than %d", e.Name, e.Size, a.limits.File)},
		// It is held in memory, and in the journal of the transaction that
		// replaces it.
		{"unit-size", e.kind != folder && unit && e.Size > MaxUnit,
			fmt.Sprintf("it has a unit of %d bytes, more than %d", e.Size, int64(MaxUnit))},
	}
}

// tops are the names that the top folder may have.
var tops = map[string]bool{"teleport": true, "teleport-ent": true}

// The paths of the units in the top folder: the agent's unit, and the unit of the FIPS edition,
// which starts the agent with --fips.
const (
	unitInside = "examples/systemd/teleport.service"
	fipsInside = "examples/systemd/fips/teleport.service"
)

type entryKind uint8

const (
	implied entryKind = iota + 1 // a folder that another entry's name needs
	folder
	file
	other
)

var otherKinds = map[byte]string{
	tar.TypeSymlink: "a symbolic link",
	tar.TypeLink:    "a hard link",
	tar.TypeChar:    "a device",
	tar.TypeBlock:   "a device",
	tar.TypeFifo:    "a named pipe",
}

// entry is one entry of an archive, as the rules look at it.
type entry struct {
	*tar.Header
	kind entryKind
	// path is the name without a folder's final slash, top its first name
	// and rel the rest. They are empty if the name is not clean.
	path, top, rel string
}

func entryOf(hdr *tar.Header) entry {
	e := entry{Header: hdr, kind: other}
	switch hdr.Typeflag {
	case tar.TypeDir:
		e.kind = folder
	case tar.TypeReg:
		e.kind = file
	}
	if p := e.trimmed(); fs.ValidPath(p) && p != "." {
		e.path = p
		e.top, e.rel, _ = strings.Cut(p, "/")
	}
	return e
}

func (e entry) trimmed() string {
	if e.kind == folder {
		return strings.TrimSuffix(e.Name, "/")
	}
	return e.Name
}

func (e entry) sparse() bool {
	for key := range e.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func (e entry) typeName() string {
	return cmp.Or(otherKinds[e.Typeflag], fmt.Sprintf("of type %q", e.Typeflag))
}

// destination returns the path and mode of an entry's file in the release, if a host needs it.
func (e entry) destination() (name string, mode fs.FileMode, ok bool) {
	switch {
	case e.kind == folder || !tops[e.top] || e.rel == "":
		return "", 0, false
	case e.rel == unitInside:
		return Unit, 0o644, true
	case e.rel == fipsInside:
		return FIPSUnit, 0o644, true
	case strings.Contains(e.rel, "/") || e.FileInfo().Mode()&0o111 == 0 || e.rel == "install":
		return "", 0, false
	}
	return Programs + "/" + e.rel, 0o755, true
}

// remember notes an entry for later ones.
func (a *reader) remember(e entry) {
	if e.path == "" {
		return
	}
	if a.top == "" && tops[e.top] {
		a.top = e.top
	}
	for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
		a.seen[dir] = max(a.seen[dir], implied)
	}
	if a.seen[e.path] <= implied {
		a.seen[e.path] = e.kind
	}
}

func (a *reader) belowFile(e entry) bool {
	for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
		if a.seen[dir] == file {
			return true
		}
	}
	return false
}
