package versions

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/internal/version"
)

func TestEveryEntryHasItsKind(t *testing.T) {
	s := testStore(t)
	if entries, err := s.List(); err != nil || entries != nil {
		t.Errorf("a folder that is not there: %v, %v", entries, err)
	}
	publish(t, s, oss("15.1.1"))
	publish(t, s, Release{Version: "15.1.1", Edition: version.FIPS})
	spoil := func(v string, how func(dir string) error) {
		must(t, how(publish(t, s, oss(v)).Dir))
	}
	spoil("1.0.0", func(dir string) error { return os.Remove(dir + "/sha256") })
	spoil("1.0.1", func(dir string) error { return os.Remove(dir + "/edition") })
	spoil("1.0.2", func(dir string) error { return os.Remove(dir + "/manifest") })
	spoil("1.0.3", func(dir string) error { return os.WriteFile(dir+"/sha256", []byte("half a dig"), 0o644) })
	spoil("1.0.4", func(dir string) error { return os.Truncate(dir+"/sha256", 0) })
	spoil("1.0.5", func(dir string) error { return os.WriteFile(dir+"/edition", []byte("pro\n"), 0o644) })
	spoil("1.0.6", func(dir string) error { return os.Rename(dir, filepath.Join(filepath.Dir(dir), "1.0.7_enterprise")) })
	spoil("1.0.8", func(dir string) error {
		must(t, os.Remove(dir+"/sha256"))
		return os.Symlink("/etc/hostname", dir+"/sha256")
	})
	spoil("1.0.9", func(dir string) error {
		must(t, os.Remove(dir+"/manifest"))
		return os.Mkdir(dir+"/manifest", 0o755)
	})
	for _, dir := range []string{"1.1.0", "1.1.1_enterprise", "original", "system", "v1.1.2", "1.1", "1.1.3_pro", "1.1.4_oss_oss", "..1.1.5", ".tmp-15.1.0-ABCDEFGH", "1.1.6.bak", "lost+found"} {
		must(t, os.Mkdir(filepath.Join(s.Dir, dir), 0o755))
	}
	for _, file := range []string{"updates.yaml", "update.lock", "find.json", ".tmp-updates.yaml-ABCDEFGH", "1.2.0"} {
		must(t, os.WriteFile(filepath.Join(s.Dir, file), nil, 0o644))
	}
	must(t, os.Symlink("15.1.1", filepath.Join(s.Dir, "1.2.1")))
	must(t, os.Symlink("1.1.0", filepath.Join(s.Dir, "current")))

	want := map[string]Entry{
		"15.1.1":                     {Kind: Complete, Release: oss("15.1.1")},
		"15.1.1_enterprise-fips":     {Kind: Complete, Release: Release{Version: "15.1.1", Edition: version.FIPS}},
		"1.0.0":                      {Kind: Incomplete, Release: Release{Version: "1.0.0"}, Why: "sha256 is missing"},
		"1.0.1":                      {Kind: Incomplete, Release: Release{Version: "1.0.1"}, Why: "edition is missing"},
		"1.0.2":                      {Kind: Incomplete, Release: Release{Version: "1.0.2"}, Why: "manifest is missing"},
		"1.0.3":                      {Kind: Incomplete, Release: Release{Version: "1.0.3"}, Why: "sha256 holds no digest"},
		"1.0.4":                      {Kind: Incomplete, Release: Release{Version: "1.0.4"}, Why: "sha256 holds no digest"},
		"1.0.5":                      {Kind: Incomplete, Release: Release{Version: "1.0.5"}, Why: `edition "pro" is not one of oss, enterprise, enterprise-fips`},
		"1.0.7_enterprise":           {Kind: Incomplete, Release: Release{Version: "1.0.7", Edition: version.Enterprise}, Why: "its name and its edition disagree"},
		"1.0.8":                      {Kind: Incomplete, Release: Release{Version: "1.0.8"}, Why: "sha256 was changed after it was installed"},
		"1.0.9":                      {Kind: Incomplete, Release: Release{Version: "1.0.9"}, Why: "manifest is not a regular file"},
		"1.1.0":                      {Kind: Incomplete, Release: Release{Version: "1.1.0"}, Why: "edition is missing"},
		"1.1.1_enterprise":           {Kind: Incomplete, Release: Release{Version: "1.1.1", Edition: version.Enterprise}, Why: "edition is missing"},
		"original":                   {Kind: Reserved},
		"partial":                    {Kind: Reserved},
		".tmp-15.1.0-ABCDEFGH":       {Kind: Leftover},
		"system":                     {Kind: Foreign},
		"v1.1.2":                     {Kind: Foreign},
		"1.1":                        {Kind: Foreign},
		"1.1.3_pro":                  {Kind: Foreign},
		"1.1.4_oss_oss":              {Kind: Foreign},
		"..1.1.5":                    {Kind: Foreign},
		"1.1.6.bak":                  {Kind: Foreign},
		"lost+found":                 {Kind: Foreign},
		"updates.yaml":               {Kind: Foreign},
		"update.lock":                {Kind: Foreign},
		"find.json":                  {Kind: Foreign},
		".tmp-updates.yaml-ABCDEFGH": {Kind: Foreign},
		"1.2.0":                      {Kind: Foreign},
		"1.2.1":                      {Kind: Foreign},
		"current":                    {Kind: Foreign},
	}
	entries, err := s.List()
	must(t, err)
	for _, e := range entries {
		w, ok := want[e.Name]
		w.Name = e.Name
		if e.Kind == Complete {
			w.Tree = Tree{Dir: filepath.Join(s.Dir, e.Name), Release: w.Release, SHA256: e.Tree.SHA256}
		}
		if !ok || e != w {
			t.Errorf("%+v; want %+v", e, w)
		}
		delete(want, e.Name)
	}
	for name := range want {
		t.Errorf("%s is not listed", name)
	}
}

func TestLookupTakesCompleteTreesOnly(t *testing.T) {
	s := testStore(t)
	tree := publish(t, s, oss("15.1.1"))
	if got, ok, err := s.Lookup(oss("15.1.1")); err != nil || !ok || got != tree {
		t.Errorf("Lookup: %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := s.Lookup(Release{Version: "15.1.1", Edition: version.Enterprise}); ok || err != nil {
		t.Errorf("another edition: %v, %v", ok, err)
	}
	must(t, os.Remove(tree.Dir+"/sha256"))
	if _, ok, err := s.Lookup(oss("15.1.1")); ok || err != nil {
		t.Errorf("without sha256: %v, %v", ok, err)
	}
	for _, r := range []Release{{Version: "../15.1.1", Edition: version.OSS}, {Version: "15.1.1"}, {}} {
		if _, ok, err := s.Lookup(r); ok || err == nil {
			t.Errorf("%+v: %v, %v; want an error", r, ok, err)
		}
	}
}
