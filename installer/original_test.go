package installer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/versions"
)

func TestWhatStoodThereIsKnownForAsLongAsANameIsOurs(t *testing.T) {
	i := testInstaller(t)
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
	for _, name := range []string{"teleport", "tsh"} {
		writeFile(t, tree.Binary(name), "program")
	}
	path := func(name string) string { return filepath.Join(i.Paths.LinkDir, name) }
	change := func(name string, b versions.Before) versions.LinkChange {
		return versions.LinkChange{Path: path(name), Target: tree.Binary(name), Before: b}
	}
	if err := i.noteBefore([]versions.LinkChange{change("tsh", versions.Before{})}); err != nil || exists(i.beforeFile()) {
		t.Fatalf("%v: a file that was lost is begun anew, and uninstall would believe it", err)
	}
	first := &journal{Links: []versions.LinkChange{change("tbot", versions.Before{Saved: "tbot-1"}), change("tsh", versions.Before{Link: "/opt/tsh"})}}
	if err := i.keepBefore(first, tree, true); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(i.Paths.Original(), "tbot-1"), "mine")
	writeFile(t, path("tbot"), "another's")
	want := map[string]versions.Before{path("tbot"): {Saved: "tbot-1"}, path("tsh"): {Link: "/opt/tsh"}}
	has := func(when string) {
		t.Helper()
		got := i.originals()
		if len(got) != len(want) {
			t.Errorf("%s: %v; want %v", when, got, want)
		}
		for p, b := range want {
			if got[p] != b {
				t.Errorf("%s: %s was %+v; want %+v", when, p, got[p], b)
			}
		}
	}
	has("after the first enable")

	// Of what a later switch changes, a name that was ours stays as it was, and a
	// link of ours is nothing that stood there before.
	later := []versions.LinkChange{
		change("tsh", versions.Before{Saved: "tsh-2"}), change("tctl", versions.Before{Link: filepath.Join(i.Paths.Versions(), "1.0.0/bin/tctl")}),
		change("teleport", versions.Before{}), {Path: path("gone"), Before: versions.Before{Link: tree.Binary("gone")}},
	}
	for range 2 {
		if err := i.noteBefore(later); err != nil {
			t.Fatal(err)
		}
	}
	want[path("teleport")] = versions.Before{}
	has("after a later switch")

	if err := i.dropBefore(tree); err != nil {
		t.Fatal(err)
	}
	delete(want, path("tbot"))
	has("without tbot")
	if !exists(filepath.Join(i.Paths.Original(), "tbot-1")) {
		t.Error("the only copy of what stood there is gone, and something else stands there")
	}
}

func TestAnOriginalWhoseCopyIsGoneHoldsNothingUp(t *testing.T) {
	i := testInstaller(t)
	tbot := filepath.Join(i.Paths.LinkDir, "tbot")
	if err := i.writeBefore(before{Links: []versions.LinkChange{{Path: tbot, Target: "/x", Before: versions.Before{Saved: "tbot-1"}}}}); err != nil {
		t.Fatal(err)
	}
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
	writeFile(t, tree.Binary("teleport"), "program")
	writeFile(t, tree.UnitFile(), "[Unit]\n")
	if err := os.MkdirAll(i.Paths.LinkDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tree.Binary("tbot"), tbot); err != nil {
		t.Fatal(err)
	}
	if err := i.relink(tree); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(i.Paths.LinkDir)
	if err != nil || !slices.EqualFunc(entries, []string{"teleport"}, func(e os.DirEntry, n string) bool { return e.Name() == n }) {
		t.Errorf("links: %v, %v; want teleport alone", entries, err)
	}
}

func TestAProgramUnderTheUpdatersNameIsPutBack(t *testing.T) {
	i := testInstaller(t)
	path := filepath.Join(i.Paths.LinkDir, updaterName)
	writeFile(t, path, "another's")
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "1.0.0")}
	writeFile(t, tree.Binary("teleport"), "program")
	// This very test is a program of our module.
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, tree.Binary(updaterName), string(program))
	if err := i.keepBefore(&journal{}, tree, true); err != nil {
		t.Fatal(err)
	}
	if err := i.linkUpdater(tree); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(path); err != nil || target != tree.Binary(updaterName) {
		t.Fatalf("the updater's link: %q, %v", target, err)
	}
	// The next version has no updater, and the one after that has.
	without := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
	writeFile(t, without.Binary("teleport"), "program")
	for _, next := range []versions.Tree{without, tree} {
		if err := i.keepBefore(&journal{}, next, false); err != nil {
			t.Fatal(err)
		}
		if err := i.linkUpdater(next); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.putBackFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "another's" {
		t.Errorf("uninstall left %d bytes, %v; want what stood there", len(data), err)
	}
}
