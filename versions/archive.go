package versions

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPadding is how many zeros may follow an archive; tar pads to 10 KiB.
const maxPadding = 1 << 20

// sink takes the files of a release as the archive brings them.
type sink interface {
	// create starts a file of exactly size bytes, in bin/ or etc/systemd/.
	// Closing ends it.
	create(name string, mode fs.FileMode, size int64) (io.WriteCloser, error)
}

// unarchive reads a whole tar archive, refuses it where it breaks a rule of
// the package, and gives what a host needs to the sink.
func unarchive(r io.Reader, limits Limits, to sink) error {
	in := &zeroTail{r: r}
	a := &archive{limits: limits, to: to, seen: make(map[string]entryKind), buf: make([]byte, 256<<10)}
	tr := tar.NewReader(in)
	for {
		hdr, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return whyNot(err)
		}
		if err := a.entry(hdr, tr); err != nil {
			return err
		}
	}
	if in.zeros < 1024 {
		return refuse("it ends without its end mark")
	}
	return a.end(in)
}

// refuse is for what breaks a rule: nothing of such an archive is kept.
func refuse(format string, args ...any) error {
	return fmt.Errorf("release archive refused: "+format, args...)
}

// whyNot explains what archive/tar says in few words. What comes from beneath
// it explains itself.
func whyNot(err error) error {
	switch err {
	case tar.ErrHeader, tar.ErrFieldTooLong:
		return refuse("it is no tar archive, or it is damaged")
	case io.ErrUnexpectedEOF:
		return refuse("it ends in the middle of an entry")
	}
	return err
}

type entryKind uint8

const (
	implied entryKind = iota + 1 // a folder that another entry's name needs
	folder
	file
)

type archive struct {
	limits  Limits
	to      sink
	top     string
	entries int
	seen    map[string]entryKind
	agent   bool
	unit    bool
	buf     []byte
}

func (a *archive) entry(hdr *tar.Header, content io.Reader) error {
	if a.entries++; a.entries > a.limits.Entries {
		return refuse("it has more than %d entries", a.limits.Entries)
	}
	kind, err := kindOf(hdr)
	if err != nil {
		return err
	}
	rel, err := a.place(hdr.Name, kind)
	if err != nil {
		return err
	}
	if kind == folder {
		return nil
	}
	if hdr.Size < 0 || hdr.Size > a.limits.File {
		return refuse("entry %.80q is of %d bytes, more than %d", hdr.Name, hdr.Size, a.limits.File)
	}
	name, mode, ok := destination(rel, hdr.FileInfo().Mode())
	if !ok {
		return nil
	}
	a.agent = a.agent || name == binName+"/"+agentName
	if name == unitName {
		// It is held in memory, and in the journal of the switch that replaces it.
		if hdr.Size > MaxUnit {
			return refuse("it has a unit of %d bytes, more than %d", hdr.Size, int64(MaxUnit))
		}
		a.unit = true
	}
	f, err := a.to.create(name, mode, hdr.Size)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(f, content, a.buf); err != nil {
		f.Close()
		return whyNot(err)
	}
	return f.Close()
}

// kindOf takes files and folders and refuses every other thing tar can say.
func kindOf(hdr *tar.Header) (entryKind, error) {
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return 0, refuse("entry %.80q is a sparse file", hdr.Name)
		}
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		return folder, nil
	case tar.TypeReg:
		// The raw bits, not those of FileInfo: they are what a careless
		// extractor would apply.
		if hdr.Mode&0o7000 != 0 {
			return 0, refuse("entry %.80q has mode %#o: no setuid, setgid or sticky files", hdr.Name, hdr.Mode)
		}
		return file, nil
	}
	return 0, refuse("entry %.80q is neither a file nor a folder but %s", hdr.Name, cmp.Or(otherKinds[hdr.Typeflag], fmt.Sprintf("of type %q", hdr.Typeflag)))
}

var otherKinds = map[byte]string{
	tar.TypeSymlink: "a symbolic link",
	tar.TypeLink:    "a hard link",
	tar.TypeChar:    "a device",
	tar.TypeBlock:   "a device",
	tar.TypeFifo:    "a named pipe",
}

// place checks a name against the rules and all names before it, and returns
// it without its top folder.
func (a *archive) place(name string, kind entryKind) (string, error) {
	clean := name
	if kind == folder {
		clean = strings.TrimSuffix(name, "/")
	}
	switch {
	case len(name) > MaxNameLength:
		return "", refuse("entry %.80q… has a name of more than %d bytes", name, MaxNameLength)
	case strings.Count(clean, "/") >= MaxDepth:
		return "", refuse("entry %.80q lies more than %d folders deep", name, MaxDepth)
	case !fs.ValidPath(clean) || clean == "." || !utf8.ValidString(name):
		return "", refuse("entry %.80q has a name that is not clean and relative", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		return "", refuse("entry %.80q has a control character or a backslash in its name", name)
	}
	top, rel, below := strings.Cut(clean, "/")
	switch {
	case top != "teleport" && top != "teleport-ent":
		return "", refuse("entry %.80q is not in a folder teleport or teleport-ent", name)
	case a.top != "" && a.top != top:
		return "", refuse("it has two top folders, %s and %s", a.top, top)
	case !below && kind == file:
		return "", refuse("its top folder %q is a file", name)
	}
	a.top = top
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		if a.seen[dir] == file {
			return "", refuse("entry %.80q lies below a file", name)
		}
		if a.seen[dir] == 0 {
			a.seen[dir] = implied
		}
	}
	switch before := a.seen[clean]; {
	case before == implied && kind == folder:
	case before != 0:
		return "", refuse("entry %.80q comes twice", name)
	}
	a.seen[clean] = kind
	return rel, nil
}

// destination says where a file of the top folder goes, if the host needs it.
func destination(rel string, mode fs.FileMode) (string, fs.FileMode, bool) {
	switch {
	case rel == "examples/systemd/teleport.service":
		return unitName, 0o644, true
	case strings.Contains(rel, "/") || mode&0o111 == 0 || rel == "install":
		return "", 0, false
	}
	return binName + "/" + rel, 0o755, true
}

// end reads what follows the archive, which must be zeros, to the end of the
// stream, and checks that the release is one.
func (a *archive) end(in *zeroTail) error {
	for padding := 0; ; {
		n, err := in.Read(a.buf)
		padding += n
		if in.zeros < int64(n) {
			return refuse("something follows its end mark")
		}
		if padding > maxPadding {
			return refuse("more than %d bytes follow its end mark", maxPadding)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return whyNot(err)
		}
	}
	if !a.agent {
		return refuse("it holds no executable teleport in its top folder")
	}
	if !a.unit {
		return refuse("it holds no examples/systemd/teleport.service")
	}
	return nil
}

// zeroTail counts the zero bytes that end what was read so far.
type zeroTail struct {
	r     io.Reader
	zeros int64
}

func (z *zeroTail) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	tail := 0
	for tail < n && p[n-1-tail] == 0 {
		tail++
	}
	if tail == n {
		z.zeros += int64(n)
	} else {
		z.zeros = int64(tail)
	}
	return n, err
}
