package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

func testHost(t *testing.T) *Host {
	t.Helper()
	root := t.TempDir()
	paths := state.Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
	}
	return &Host{Paths: paths, Store: versions.NewStore(paths.Versions()), Log: slog.New(slog.DiscardHandler)}
}

func TestWhatStoodThereIsKnownForAsLongAsANameIsOurs(t *testing.T) {
	i := testHost(t)
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
	for _, name := range []string{"teleport", "tsh"} {
		writeFile(t, tree.Binary(name), "program")
	}
	path := func(name string) string { return filepath.Join(i.Paths.LinkDir, name) }
	change := func(name string, b state.Before) state.LinkChange {
		return state.LinkChange{Path: path(name), Target: tree.Binary(name), Before: b}
	}
	if err := i.Claim([]state.LinkChange{change("tsh", state.Before{})}); err != nil || Exists(i.originalsFile()) {
		t.Fatalf("%v: a file that was lost is begun again, and uninstall would believe it", err)
	}
	first := []state.LinkChange{change("tbot", state.Before{Saved: "tbot-1"}), change("tsh", state.Before{Link: "/opt/tsh"})}
	if err := i.Keep(first, tree, true); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(i.Paths.Original(), "tbot-1"), "mine")
	writeFile(t, path("tbot"), "another's")
	want := map[string]state.Before{path("tbot"): {Saved: "tbot-1"}, path("tsh"): {Link: "/opt/tsh"}}
	has := func(when string) {
		t.Helper()
		got := i.known()
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

	// Of what a later transaction changes, a name that was ours stays as it was, and a
	// link of ours is nothing that stood there before.
	later := []state.LinkChange{
		change("tsh", state.Before{Saved: "tsh-2"}), change("tctl", state.Before{Link: filepath.Join(i.Paths.Versions(), "1.0.0/bin/tctl")}),
		change("teleport", state.Before{}), {Path: path("gone"), Before: state.Before{Link: tree.Binary("gone")}},
	}
	for range 2 {
		if err := i.Claim(later); err != nil {
			t.Fatal(err)
		}
	}
	want[path("teleport")] = state.Before{}
	has("after a later transaction")

	if err := i.Disclaim(tree); err != nil {
		t.Fatal(err)
	}
	delete(want, path("tbot"))
	has("without tbot")
	if !Exists(filepath.Join(i.Paths.Original(), "tbot-1")) {
		t.Error("the only copy of what stood there is gone, and something else stands there")
	}
}

func TestAnOriginalWhoseCopyIsGoneHoldsNothingUp(t *testing.T) {
	i := testHost(t)
	tbot := filepath.Join(i.Paths.LinkDir, "tbot")
	if err := i.WriteOriginals(Originals{Links: []state.LinkChange{{Path: tbot, Target: "/x", Before: state.Before{Saved: "tbot-1"}}}}); err != nil {
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
	if err := i.Repair(tree); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(i.Paths.LinkDir)
	if err != nil || !slices.EqualFunc(entries, []string{"teleport"}, func(e os.DirEntry, n string) bool { return e.Name() == n }) {
		t.Errorf("links: %v, %v; want teleport alone", entries, err)
	}
}

func TestTheUpdatersLinkTakesThePlaceOfAProgramAndGoes(t *testing.T) {
	i := testHost(t)
	path := filepath.Join(i.Paths.LinkDir, UpdaterName)
	writeFile(t, path, "another's")
	tree := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "1.0.0")}
	writeFile(t, tree.Binary("teleport"), "program")
	// This very test is a program of our module.
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, tree.Binary(UpdaterName), string(program))
	if err := i.Keep(nil, tree, true); err != nil {
		t.Fatal(err)
	}
	if err := i.LinkUpdater(tree); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(path); err != nil || target != tree.Binary(UpdaterName) {
		t.Fatalf("the updater's link: %q, %v", target, err)
	}
	// The next version has no updater, and the one after that has.
	without := versions.Tree{Dir: filepath.Join(i.Paths.Versions(), "2.0.0")}
	writeFile(t, without.Binary("teleport"), "program")
	for _, next := range []versions.Tree{without, tree} {
		if err := i.Keep(nil, next, false); err != nil {
			t.Fatal(err)
		}
		if err := i.LinkUpdater(next); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.RemoveLinks(); err != nil {
		t.Fatal(err)
	}
	if Exists(path) {
		t.Error("uninstall left the updater's link")
	}
}
