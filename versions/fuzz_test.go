package versions

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"

	"teleport-update/internal/version"
)

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
			if !fs.ValidPath(s.name) || !IsDigest(s.digest) {
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
