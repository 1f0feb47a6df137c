package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"teleport-update/integration/tarball"
)

// memory is a sink that checks what it is given.
type memory struct {
	t     *testing.T
	files map[string]*memoryFile
}

type memoryFile struct {
	bytes.Buffer
	t    *testing.T
	name string
	size int64
}

func (m *memory) Create(name string, mode fs.FileMode, size int64) (io.WriteCloser, error) {
	m.t.Helper()
	dir, base := path.Split(name)
	if name != Unit && dir != "bin/" || !fs.ValidPath(name) || base == "install" {
		m.t.Errorf("asked to write %q", name)
	}
	if want := map[bool]fs.FileMode{true: 0o755, false: 0o644}[dir == "bin/"]; mode != want {
		m.t.Errorf("%q gets mode %v", name, mode)
	}
	if m.files[name] != nil {
		m.t.Errorf("%q is written twice", name)
	}
	f := &memoryFile{t: m.t, name: name, size: size}
	m.files[name] = f
	return f, nil
}

func (f *memoryFile) Close() error {
	if int64(f.Len()) > f.size {
		f.t.Errorf("%q has %d bytes, more than its %d", f.name, f.Len(), f.size)
	}
	if int64(f.Len()) < f.size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// whole checks what was taken.
func (m *memory) whole() {
	m.t.Helper()
	if m.files[Agent] == nil || m.files[Unit] == nil {
		m.t.Error("taken without an agent or a unit")
	}
	for name, file := range m.files {
		if int64(file.Len()) != file.size {
			m.t.Errorf("%q has %d bytes, not %d", name, file.Len(), file.size)
		}
	}
}

func FuzzUnarchive(f *testing.F) {
	f.Add(tarball.Of(tarball.Sound("15.1.1")...))
	f.Add(tarball.Of(tarball.Item{Name: "teleport/../x"}, tarball.Item{Name: "/x"}))
	f.Add(tarball.Of(tarball.Item{Name: "x", LongName: "teleport/" + strings.Repeat("a", 120), Data: "x"}))
	f.Add(tarball.Of(tarball.Item{Name: "x", Pax: map[string]string{"path": "teleport/tsh", "size": "3"}, Data: "abc"}))
	f.Add(tarball.Of(tarball.Item{Name: "teleport/s", Pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "4096"}, Data: "0\n"}))
	f.Add(tarball.Of(tarball.Item{Name: "teleport/l", Kind: tar.TypeSymlink, Link: "/etc"}, tarball.Item{Name: "teleport/l/passwd"}))
	limits := Limits{Download: 1 << 20, Entries: 20, File: 1 << 16, Total: 1 << 18, Ratio: 50, Slack: 1 << 18}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<18 {
			return
		}
		m := &memory{t: t, files: make(map[string]*memoryFile)}
		err := newReader(limits, m, func(v *Violation) error { return v }).read(bytes.NewReader(data))
		var found []*Violation
		last := newReader(limits, nowhere{}, func(v *Violation) error {
			found = append(found, v)
			return nil
		}).read(bytes.NewReader(data))
		if v, ok := errors.AsType[*Violation](last); ok {
			found = append(found, v)
		}
		switch v, refused := errors.AsType[*Violation](err); {
		case err != nil && !refused:
			t.Errorf("it fails with %v", err)
		case refused != (len(found) > 0), refused && *v != *found[0]:
			t.Errorf("it is refused with %v, and a check finds %v", err, found)
		case refused:
			return
		}
		m.whole()
		if tail := data[max(0, len(data)-1024):]; len(bytes.Trim(tail, "\x00")) > 0 {
			t.Error("taken without its end mark")
		}
	})
}

// FuzzExpand: whatever comes compressed is expanded within the limits, or refused.
func FuzzExpand(f *testing.F) {
	plain := tarball.Of(tarball.Sound("15.1.1")...)
	f.Add(tarball.Gzip(plain))
	f.Add(tarball.Zstd(plain))
	f.Add(append(tarball.Gzip(plain), tarball.Gzip(plain)...))
	f.Add(tarball.Gzip(plain)[:100])
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\xff"))
	limits := Limits{Download: 1 << 20, Total: 1 << 18, Ratio: 50, Slack: 1 << 16}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		e := &expander{limits: limits, in: source{r: bytes.NewReader(data)}}
		n, err := io.Copy(io.Discard, e)
		if n > limits.Total {
			t.Errorf("%d bytes came, %v", n, err)
		}
		if err == nil && int(e.in.bytes) != len(data) {
			t.Errorf("of %d bytes, %d were read", len(data), e.in.bytes)
		}
	})
}
