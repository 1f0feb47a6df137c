package host

import (
	"errors"
	"os"
	"slices"
	"strings"
	"teleport-update/installer/state"
	"teleport-update/versions"
	"testing"
)

func TestANameThatAVersionLacksGetsBackWhatStoodThere(t *testing.T) {
	store, old, new := twoTrees(t)
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/tbot", []byte("mine"), 0o711))
	must(t, os.Chmod(dir+"/tbot", 0o711|os.ModeSetuid))
	must(t, os.Symlink("../lib/dump", dir+"/dump"))
	original := map[string]state.Before{}
	to := func(tree versions.Tree) []state.LinkChange {
		t.Helper()
		changes, err := PlanLinks(dir, tree, original)
		must(t, err)
		changes = throughJSON(t, changes)
		for _, c := range changes {
			if ours, err := store.Holds(c.Path, c.Before.Link); err != nil {
				t.Fatal(err)
			} else if c.Target != "" && (!ours || c.Before.Link == "") {
				original[c.Path] = c.Before
			}
		}
		return changes
	}
	must(t, ApplyLinks(to(new), store.OriginalDir()))
	if got := links(t, dir); !slices.Contains(got, "tbot -> "+new.Binary("tbot")) {
		t.Fatalf("got %q", got)
	}
	linked := links(t, dir)

	// To 1.0.0, which lacks tbot, cut off anywhere, undone, and then whole.
	changes := to(old)
	for n := range changes {
		must(t, ApplyLinks(changes[:n], store.OriginalDir()))
		must(t, RevertLinks(changes, store.OriginalDir()))
		if got := links(t, dir); !slices.Equal(got, linked) {
			t.Fatalf("undone after %d changes: %q; want %q", n, got, linked)
		}
	}
	must(t, ApplyLinks(changes, store.OriginalDir()))
	must(t, RevertLinks(changes, store.OriginalDir()))
	must(t, RevertLinks(changes, store.OriginalDir()))
	if got := links(t, dir); !slices.Equal(got, linked) {
		t.Fatalf("undone: %q; want %q", got, linked)
	}
	must(t, ApplyLinks(changes, store.OriginalDir()))
	must(t, ApplyLinks(changes, store.OriginalDir()))
	if got := links(t, dir); !slices.Contains(got, "tbot: mine") || !slices.Contains(got, "dump -> "+old.Binary("dump")) {
		t.Errorf("got %q; want tbot as it was and dump linked", got)
	}
	if info, err := os.Stat(dir + "/tbot"); err != nil || info.Mode() != 0o711|os.ModeSetuid {
		t.Errorf("tbot: %v, %v; want the mode that it had", info.Mode(), err)
	}
	if problems, err := CheckLinks(dir, old); err != nil || len(problems) > 0 {
		t.Errorf("%q, %v; want all well", problems, err)
	}

	// And on to 1.1.0, which lacks dump: a link gets back, too.
	must(t, ApplyLinks(to(new), store.OriginalDir()))
	if got := links(t, dir); !slices.Contains(got, "dump -> ../lib/dump") {
		t.Errorf("got %q; want dump as it was", got)
	}
}

func TestACopyGoesOnceItsFileStandsInItsPlaceAgain(t *testing.T) {
	store, old, _ := twoTrees(t)
	for name, tc := range map[string]struct {
		then string // stands there at last
		want bool   // the copy
	}{
		"put back":       {"mine", false},
		"something else": {"another", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(dir+"/tsh", []byte("mine"), 0o755))
			changes, err := PlanLinks(dir, old, nil)
			must(t, err)
			must(t, ApplyLinks(changes, store.OriginalDir()))
			must(t, os.Remove(dir+"/tsh"))
			must(t, os.WriteFile(dir+"/tsh", []byte(tc.then), 0o755))
			for _, c := range changes {
				must(t, DropSaved(c, store.OriginalDir()))
				must(t, DropSaved(c, store.OriginalDir()))
			}
			left, err := os.ReadDir(store.OriginalDir())
			must(t, err)
			if len(left) > 0 != tc.want {
				t.Errorf("left: %v; want the copy: %v", left, tc.want)
			}
		})
	}
}

func TestWhatCameInBetweenIsNotDestroyed(t *testing.T) {
	store, _, new := twoTrees(t)
	t.Run("before the transaction", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/tsh", []byte("packaged"), 0o755))
		changes, err := PlanLinks(dir, new, nil)
		must(t, err)
		must(t, os.WriteFile(dir+"/teleport", []byte("just copied here"), 0o755))
		if err := ApplyLinks(changes, store.OriginalDir()); err == nil || !strings.Contains(err.Error(), dir+"/teleport") {
			t.Errorf("error %v; want one that names the file", err)
		}
		must(t, os.WriteFile(dir+"/other", nil, 0o755))
		if got := links(t, dir); !slices.Contains(got, "teleport: just copied here") {
			t.Errorf("the file is gone: %q", got)
		}
	})
	t.Run("a file that changed after the plan", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/teleport", []byte("packaged"), 0o755))
		changes, err := PlanLinks(dir, new, nil)
		must(t, err)
		must(t, os.WriteFile(dir+"/teleport", []byte("just copied here"), 0o755))
		if err := ApplyLinks(changes, t.TempDir()); err == nil || !strings.Contains(err.Error(), "changed since") {
			t.Errorf("error %v; want one that says so", err)
		}
		if got := links(t, dir); !slices.Equal(got, []string{"teleport: just copied here"}) {
			t.Errorf("changed: %q", got)
		}
	})
	t.Run("a file that was not saved, and changed before the way back", func(t *testing.T) {
		for how, change := range map[string]func(path string) error{
			"not at all": func(string) error { return nil },
			"upgraded":   func(path string) error { return os.WriteFile(path, []byte("upgraded"), 0o755) },
			"removed":    os.Remove,
			"linked":     func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/opt/teleport", path)) },
			"a folder":   func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		} {
			dir, originals := t.TempDir(), t.TempDir()
			for _, name := range []string{"tctl", "teleport"} {
				must(t, os.WriteFile(dir+"/"+name, []byte("packaged"), 0o755))
			}
			changes, err := PlanLinks(dir, new, nil)
			must(t, err)
			must(t, ApplyLinks(changes[:2], originals)) // tbot and tctl
			must(t, os.Remove(dir+"/tbot"))
			must(t, os.Remove(dir+"/tctl")) // whose copy is there
			must(t, change(dir+"/teleport"))
			want := append([]string{"tctl: packaged"}, links(t, dir)...)
			for range 2 {
				if err := RevertLinks(Begun(changes, originals), originals); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
			if got := links(t, dir); !slices.Equal(got, want) {
				t.Errorf("%s: %q; want %q", how, got, want)
			}
		}
	})
	t.Run("a file whose copy is gone", func(t *testing.T) {
		dir, originals := t.TempDir(), t.TempDir()
		must(t, os.WriteFile(dir+"/teleport", []byte("packaged"), 0o755))
		changes, err := PlanLinks(dir, new, nil)
		must(t, err)
		must(t, ApplyLinks(changes, originals))
		must(t, os.RemoveAll(originals))
		if err := RevertLinks(Begun(changes, originals), originals); err == nil {
			t.Error("no error, although the file cannot be put back")
		}
		if got := links(t, dir); !slices.Equal(got, []string{"teleport -> " + new.Binary("teleport")}) {
			t.Errorf("left is %q; want the link", got)
		}
	})
	t.Run("before the way back", func(t *testing.T) {
		dir := t.TempDir()
		changes, err := PlanLinks(dir, new, nil)
		must(t, err)
		must(t, ApplyLinks(changes, store.OriginalDir()))
		must(t, os.Remove(dir+"/tctl"))
		must(t, os.WriteFile(dir+"/tctl", []byte("just copied here"), 0o755))
		if err := RevertLinks(changes, store.OriginalDir()); err == nil || !strings.Contains(err.Error(), dir+"/tctl") {
			t.Errorf("error %v; want one that names the file", err)
		}
		if got := links(t, dir); !slices.Equal(got, []string{"tctl: just copied here"}) {
			t.Errorf("left is %q; want all else undone", got)
		}
	})
}
