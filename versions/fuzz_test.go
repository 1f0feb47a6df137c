package versions

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
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

func (m *memory) create(name string, mode fs.FileMode, size int64) (io.WriteCloser, error) {
	m.t.Helper()
	dir, base := path.Split(name)
	if name != unitName && dir != "bin/" || !fs.ValidPath(name) || base == "install" {
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

func FuzzUnarchive(f *testing.F) {
	f.Add(tarOf(soundItems("15.1.1")...))
	f.Add(tarOf(item{name: "teleport/../x"}, item{name: "/x"}))
	f.Add(tarOf(item{name: "x", longName: "teleport/" + strings.Repeat("a", 120), data: "x"}))
	f.Add(tarOf(item{name: "x", pax: map[string]string{"path": "teleport/tsh", "size": "3"}, data: "abc"}))
	f.Add(tarOf(item{name: "teleport/s", pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "4096"}, data: "0\n"}))
	f.Add(tarOf(item{name: "teleport/l", kind: tar.TypeSymlink, link: "/etc"}, item{name: "teleport/l/passwd"}))
	limits := Limits{Download: 1 << 20, Entries: 20, File: 1 << 16, Total: 1 << 18, Ratio: 50, Slack: 1 << 18}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<18 {
			return
		}
		m := &memory{t: t, files: make(map[string]*memoryFile)}
		err := unarchive(bytes.NewReader(data), limits, m)
		if err != nil {
			return
		}
		if m.files["bin/teleport"] == nil || m.files[unitName] == nil {
			t.Error("taken without an agent or a unit")
		}
		if tail := data[max(0, len(data)-1024):]; len(bytes.Trim(tail, "\x00")) > 0 {
			t.Error("taken without its end mark")
		}
		for name, file := range m.files {
			if int64(file.Len()) != file.size {
				t.Errorf("%q has %d bytes, not %d", name, file.Len(), file.size)
			}
		}
	})
}

func FuzzParseChecksum(f *testing.F) {
	digest := digestHex(nil)
	for _, seed := range []string{"", digest, strings.ToUpper(digest) + "  x\n", digest + digest, digest[:63] + "g", "<html>"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		digest, err := parseChecksum(data)
		if err == nil && (!isDigest(digest) || !strings.EqualFold(digest, string(data[:64]))) {
			t.Errorf("%q was read as %q", data, digest)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add(string(formatManifest([]sum{sumOf("bin/teleport", nil), sumOf("edition", []byte("oss\n"))})))
	f.Add(digestHex(nil) + "  ../x\n")
	f.Add(digestHex(nil) + " *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := parseManifest(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range sums {
			if !fs.ValidPath(s.name) || !isDigest(s.digest) {
				t.Errorf("%q was read as %+v", text, s)
			}
		}
		again, err := parseManifest(bytes.NewReader(formatManifest(sums)))
		if err != nil || len(again) != len(sums) {
			t.Errorf("%q was written as what cannot be read: %v", text, err)
		}
	})
}

func FuzzFolderNames(f *testing.F) {
	for _, seed := range []string{"15.1.1", "15.1.1_enterprise", "15.1.1_oss_oss", "partial", "../1.2.3", "v1.2.3", "1.2.3-rc.1+b_enterprise-fips"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		v, e, ok := parseFolder(name)
		if !ok {
			return
		}
		plain, qualified := Release{v, e}.folders()
		if name != plain && name != qualified || path.Base(name) != name || strings.HasPrefix(name, ".") {
			t.Errorf("%q was taken for %q, %q", name, v, e)
		}
	})
}
