package versions

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
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
		plain, qualified := folders(Release{Version: v, Edition: e})
		if name != plain && name != qualified || path.Base(name) != name || strings.HasPrefix(name, ".") {
			t.Errorf("%q was taken for %q, %q", name, v, e)
		}
	})
}

// FuzzExpand: whatever comes compressed is expanded within the limits, or refused.
func FuzzExpand(f *testing.F) {
	plain := tarOf(soundItems("15.1.1")...)
	f.Add(gz(plain))
	f.Add(zst(plain))
	f.Add(append(gz(plain), gz(plain)...))
	f.Add(gz(plain)[:100])
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\xff"))
	limits := Limits{Total: 1 << 18, Ratio: 50, Slack: 1 << 16}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		in := &counted{r: bytes.NewReader(data), hash: sha256.New()}
		n, err := io.Copy(io.Discard, &expander{r: in, limits: limits, in: &in.bytes})
		if n > limits.Total {
			t.Errorf("%d bytes came, %v", n, err)
		}
		if err == nil && int(in.bytes.Load()) != len(data) {
			t.Errorf("of %d bytes, %d were read", len(data), in.bytes.Load())
		}
	})
}

// FuzzTemplate: a template that is taken makes a URL that may be asked, for every
// edition; one that is not says so without a password.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{DefaultTemplate, "https://ann:x@h/{{.Version}}?t=y", "file:///srv/{{.Version}}", "http://127.0.0.1/{{if .FIPS}}f{{end}}x",
		"http://h/{{.Version}}", "{{range 9}}x{{end}}", "https://h/{{printf \"%9999s\" .OS}}", "https://h/{{with .Edition}}{{.}}{{end}}", "{{define \"x\"}}{{end}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<10 || strings.Contains(text, "{{") && strings.Contains(text, "printf") && len(text) > 200 {
			return // widths of a megabyte each: slow, and root's own wish
		}
		tmpl, err := ParseTemplate(text)
		if err != nil {
			return
		}
		for _, e := range []version.Edition{version.OSS, version.Enterprise, version.FIPS} {
			u, err := tmpl.URL(Release{Version: "1.2.3", Edition: e})
			if err != nil {
				t.Fatalf("%q was taken: %v", text, err)
			}
			if u.Scheme != "file" {
				if err := webclient.CheckURL(u); err != nil {
					t.Errorf("%q makes %v: %v", text, u, err)
				}
			}
			if sum := checksumURL(u); !strings.HasSuffix(sum.Path, ".sha256") || sum.Host != u.Host {
				t.Errorf("the checksum of %v is at %v", u, sum)
			}
		}
	})
}

// FuzzContentRange: a range that is read is one that a part can have.
func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 5-9/10", "bytes 0-0/*", "bytes 9-5/10", "bytes 5-9/3", "bytes -1-9/10", "bytes 5-9/99999999999999999999", "items 0-1/2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		start, total, ok := parseContentRange(s)
		if ok && (start < 0 || total != -1 && total <= start) {
			t.Errorf("%q was read as %d of %d", s, start, total)
		}
	})
}

// FuzzNamedVersions: what a program prints names versions or none.
func FuzzNamedVersions(f *testing.F) {
	f.Add("Teleport v15.1.1 git:v15.1.1-0-g go1.22\n")
	f.Add("Teleport Enterprise v16.0.0-rc.1 x\nTeleport v\nTeleport v1\n")
	f.Fuzz(func(t *testing.T, out string) {
		for v := range namedVersions(out) {
			if clean, err := version.Parse(v); err != nil || clean != v {
				t.Errorf("%q was taken for a version", v)
			}
		}
	})
}
