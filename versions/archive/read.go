package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
)

// maxPadding is how many zeros may follow an archive; tar pads to 10 KiB.
const maxPadding = 1 << 20

// reader reads one archive.
type reader struct {
	limits Limits
	to     Sink
	// report is called for each violation after which reading can continue. If it returns an error,
	// reading ends.
	report func(*Violation) error

	entries int
	top     string
	version string
	seen    map[string]entryKind
	agent   bool
	unit    bool
	buf     []byte
}

func newReader(limits Limits, to Sink, report func(*Violation) error) *reader {
	return &reader{limits: limits, to: to, report: report, seen: make(map[string]entryKind), buf: make([]byte, 256<<10)}
}

// read reads a whole tar archive and gives the files that a host needs to the sink.
func (a *reader) read(r io.Reader) error {
	in := &zeroTail{r: r}
	tr := tar.NewReader(in)
	for {
		hdr, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return whyNot(err)
		}
		if a.entries++; a.entries > a.limits.Entries {
			return violation("entries", "it has more than %d entries", a.limits.Entries)
		}
		if err := a.entry(entryOf(hdr), tr); err != nil {
			return err
		}
	}
	if in.zeros < 1024 {
		if err := a.report(violation("end-mark", "it ends without its end mark")); err != nil {
			return err
		}
	}
	err := a.padding(in)
	if v, ok := errors.AsType[*Violation](err); ok {
		err = a.report(v)
	}
	if err != nil {
		return err
	}
	return a.complete()
}

// whyNot explains an error of archive/tar in few words. Errors of the underlying reader explain
// themselves.
func whyNot(err error) error {
	switch err {
	case tar.ErrHeader, tar.ErrFieldTooLong:
		return violation("damage", "it is no tar archive, or it is damaged")
	case io.ErrUnexpectedEOF:
		return violation("cut", "it ends in the middle of an entry")
	}
	return err
}

// entry takes one entry. It notes the entry for later ones; a file that a host needs and that
// breaks no rule goes to the sink.
func (a *reader) entry(e entry, content io.Reader) error {
	sound := true
	for _, r := range a.rules(e) {
		if !r.broken {
			continue
		}
		sound = false
		if err := a.report(&Violation{Rule: r.name, Text: r.text}); err != nil {
			return err
		}
	}
	a.remember(e)
	name, mode, needed := e.destination()
	a.agent = a.agent || name == Agent
	a.unit = a.unit || name == Unit
	if sound && e.kind == file && e.rel == "VERSION" {
		return a.readVersion(content)
	}
	if !needed || !sound {
		return nil
	}
	f, err := a.to.Create(name, mode, e.Size)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(f, content, a.buf); err != nil {
		f.Close()
		return whyNot(err)
	}
	return f.Close()
}

// maxVersion bounds how much of the file VERSION is read, in bytes.
const maxVersion = 256

func (a *reader) readVersion(content io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(content, maxVersion))
	a.version = string(bytes.TrimSpace(text))
	return whyNot(err)
}

// padding reads the rest of the stream after the archive, which must be zeros.
func (a *reader) padding(in *zeroTail) error {
	for padding := 0; ; {
		n, err := in.Read(a.buf)
		padding += n
		if in.zeros < int64(n) {
			return violation("trailing", "something follows its end mark")
		}
		if padding > maxPadding {
			return violation("trailing", "more than %d bytes follow its end mark", maxPadding)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// complete checks that the archive is a release.
func (a *reader) complete() error {
	if !a.agent {
		if err := a.report(violation("agent", "it holds no executable teleport in its top folder")); err != nil {
			return err
		}
	}
	if !a.unit {
		return a.report(violation("unit", "it holds no %s", unitInside))
	}
	return nil
}

// zeroTail counts the zero bytes at the end of the bytes read so far.
type zeroTail struct {
	r     io.Reader
	zeros int64
}

func (z *zeroTail) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	tail := n - len(bytes.TrimRight(p[:n], "\x00"))
	if tail == n {
		z.zeros += int64(n)
	} else {
		z.zeros = int64(tail)
	}
	return n, err
}
