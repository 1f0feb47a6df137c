package fetch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/versions"
)

func TestEditionsOfOneVersionLieSideBySide(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	second := publish(t, f, versions.Release{Version: "15.1.1", Edition: version.Enterprise})
	third := publish(t, f, versions.Release{Version: "15.1.1", Edition: version.FIPS})
	for tree, want := range map[versions.Tree]string{first: "15.1.1", second: "15.1.1_enterprise", third: "15.1.1_enterprise-fips"} {
		if filepath.Base(tree.Dir) != want {
			t.Errorf("%v is in %s; want %s", tree.Release, tree.Dir, want)
		}
		found, ok, err := f.Store.Lookup(tree.Release)
		if err != nil || !ok || found != tree {
			t.Errorf("Lookup(%v) = %+v, %v, %v; want %+v", tree.Release, found, ok, err, tree)
		}
	}
}

// Whose mark of the edition is lost keeps its folder: the agent executes what is in it.
func TestAnotherEditionDoesNotTakeTheFolderOfTheActiveOne(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"broken":  func(path string) error { return os.WriteFile(path, []byte("{[ broken"), 0o644) },
	} {
		f, _ := testFetcher(t, nil)
		active := publish(t, f, oss("15.1.1"))
		if err := spoil(active.Dir + "/edition"); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			r    versions.Release
			want string
		}{{versions.Release{Version: "15.1.1", Edition: version.Enterprise}, "15.1.1_enterprise"}, {active.Release, "15.1.1"}} {
			tree, err := f.Fetch(t.Context(), Request{Release: tc.r, Linked: active.Release, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}})
			if err != nil || filepath.Base(tree.Dir) != tc.want {
				t.Errorf("%s: %v is in %s, %v; want %s", name, tc.r, tree.Dir, err, tc.want)
			}
		}
	}
}

// A folder whose mark is lost is by its name the one of a release, also where a plainer name is free.
func TestAReleaseComesBackIntoTheFolderOfItsName(t *testing.T) {
	f, _ := testFetcher(t, nil)
	r := versions.Release{Version: "15.1.1", Edition: version.Enterprise}
	first := publish(t, f, oss("15.1.1"))
	tree := publish(t, f, r)
	if err := errors.Join(os.RemoveAll(first.Dir), os.Remove(tree.Dir+"/edition")); err != nil {
		t.Fatal(err)
	}
	again, err := f.Fetch(t.Context(), Request{Release: r, Linked: r, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}})
	if err != nil || again.Dir != tree.Dir {
		t.Errorf("it comes back into %s, %v; want %s", again.Dir, err, tree.Dir)
	}
}

func TestAReleaseIsReplacedInTheFolderThatItIsIn(t *testing.T) {
	f, _ := testFetcher(t, nil)
	first := publish(t, f, oss("15.1.1"))
	r := versions.Release{Version: "15.1.1", Edition: version.Enterprise}
	tree := publish(t, f, r)
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tree.BackupDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := f.Fetch(t.Context(), Request{Release: r, Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Dir != tree.Dir {
		t.Errorf("it is in %s now, apart from its backup; want %s", again.Dir, tree.Dir)
	}
	if _, err := os.Stat(again.BackupDir()); err != nil {
		t.Error(err)
	}
}
