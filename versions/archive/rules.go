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

// rule is one that each entry has to keep.
type rule struct {
	name string
	// broken says in what way an entry breaks it, after those that a has seen;
	// empty if it does not.
	broken func(a *reader, e entry) string
}

// entryRules are looked at in this order, each whatever the others say.
var entryRules = []rule{
	{"sparse", func(_ *reader, e entry) string {
		for key := range e.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") {
				return e.saying("is a sparse file")
			}
		}
		return ""
	}},
	{"kind", func(_ *reader, e entry) string {
		if e.kind != other {
			return ""
		}
		return e.saying("is neither a file nor a folder but %s", cmp.Or(otherKinds[e.Typeflag], fmt.Sprintf("of type %q", e.Typeflag)))
	}},
	{"mode", func(_ *reader, e entry) string {
		// The raw bits, not those of FileInfo: they are what a careless
		// extractor would apply.
		if e.kind != file || e.Mode&0o7000 == 0 {
			return ""
		}
		return e.saying("has mode %#o: no setuid, setgid or sticky files", e.Mode)
	}},
	{"name-length", func(_ *reader, e entry) string {
		if len(e.Name) <= MaxNameLength {
			return ""
		}
		return fmt.Sprintf("entry %.80q… has a name of more than %d bytes", e.Name, MaxNameLength)
	}},
	{"depth", func(_ *reader, e entry) string {
		if strings.Count(e.trimmed(), "/") < MaxDepth {
			return ""
		}
		return e.saying("lies more than %d folders deep", MaxDepth)
	}},
	{"name", func(_ *reader, e entry) string {
		if e.path != "" {
			return ""
		}
		return e.saying("has a name that is not clean and relative")
	}},
	{"characters", func(_ *reader, e entry) string {
		if !strings.ContainsFunc(e.Name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }) {
			return ""
		}
		return e.saying("has a control character or a backslash in its name")
	}},
	{"top", func(_ *reader, e entry) string {
		if e.path == "" || tops[e.top] {
			return ""
		}
		return e.saying("is not in a folder teleport or teleport-ent")
	}},
	{"one-top", func(a *reader, e entry) string {
		if !tops[e.top] || a.top == "" || a.top == e.top {
			return ""
		}
		return fmt.Sprintf("it has two top folders, %s and %s", a.top, e.top)
	}},
	{"top-file", func(_ *reader, e entry) string {
		if e.kind != file || !tops[e.path] {
			return ""
		}
		return fmt.Sprintf("its top folder %q is a file", e.Name)
	}},
	{"below-file", func(a *reader, e entry) string {
		for dir := range above(e.path) {
			if a.seen[dir] == file {
				return e.saying("lies below a file")
			}
		}
		return ""
	}},
	{"twice", func(a *reader, e entry) string {
		before := a.seen[e.path]
		if e.path == "" || before == 0 || before == implied && e.kind == folder {
			return ""
		}
		return e.saying("comes twice")
	}},
	{"size", func(a *reader, e entry) string {
		if e.kind == folder || e.Size <= a.limits.File {
			return ""
		}
		return e.saying("is of %d bytes, more than %d", e.Size, a.limits.File)
	}},
	{"unit-size", func(_ *reader, e entry) string {
		// It is held in memory, and in the journal of the transaction that
		// replaces it.
		if e.rel != unitInside || e.kind == folder || e.Size <= MaxUnit {
			return ""
		}
		return fmt.Sprintf("it has a unit of %d bytes, more than %d", e.Size, int64(MaxUnit))
	}},
}

// tops are the names that the top folder may have.
var tops = map[string]bool{"teleport": true, "teleport-ent": true}

// unitInside is where the unit lies in the top folder.
const unitInside = "examples/systemd/teleport.service"

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
	// path is the name without the slash that ends a folder's, top its first name
	// and rel what follows. They are empty where the name is not clean.
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

func (e entry) saying(format string, args ...any) string {
	return fmt.Sprintf("entry %.80q ", e.Name) + fmt.Sprintf(format, args...)
}

// destination says where an entry goes, if a host needs it.
func (e entry) destination() (name string, mode fs.FileMode, ok bool) {
	switch {
	case e.kind == folder || !tops[e.top] || e.rel == "":
		return "", 0, false
	case e.rel == unitInside:
		return Unit, 0o644, true
	case strings.Contains(e.rel, "/") || e.FileInfo().Mode()&0o111 == 0 || e.rel == "install":
		return "", 0, false
	}
	return Programs + "/" + e.rel, 0o755, true
}

// above yields the folders that a clean path lies in.
func above(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for dir := path.Dir(p); dir != "." && yield(dir); dir = path.Dir(dir) {
		}
	}
}
