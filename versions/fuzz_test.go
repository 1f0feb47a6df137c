package versions

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

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
		for _, v := range namedVersions(out) {
			if clean, err := version.Parse(v); err != nil || clean != v {
				t.Errorf("%q was taken for a version", v)
			}
		}
	})
}
