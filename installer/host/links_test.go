package host

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// twoTrees are 1.0.0, which has a program dump that 1.1.0 lacks, and 1.1.0,
// which brings tbot.
func twoTrees(t *testing.T) (store *versions.Store, old, new versions.Tree) {
	t.Helper()
	store = versions.NewStore(filepath.Join(t.TempDir(), "versions"))
	return store, treeOf(t, store, "1.0.0", "dump"), treeOf(t, store, "1.1.0", "tbot")
}

// treeOf is a version with the programs of every one, and some more.
func treeOf(t *testing.T, store *versions.Store, v string, more ...string) versions.Tree {
	t.Helper()
	tree := versions.Tree{Dir: filepath.Join(store.Dir, v), Release: versions.Release{Version: v, Edition: version.OSS}}
	for _, name := range append([]string{"teleport", "tsh", "tctl"}, more...) {
		writeFile(t, tree.Binary(name), name+" "+v)
	}
	return tree
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o755))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// throughJSON is what the changes are after they were written down and read.
func throughJSON(t *testing.T, changes []state.LinkChange) []state.LinkChange {
	t.Helper()
	data, err := json.Marshal(changes)
	must(t, err)
	var back []state.LinkChange
	must(t, json.Unmarshal(data, &back))
	if !slices.Equal(back, changes) {
		t.Fatalf("%s was read as %+v; want %+v", data, back, changes)
	}
	return back
}

// links lists a folder as "name -> target" and "name: content".
func links(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(path); err == nil {
			out = append(out, e.Name()+" -> "+target)
			continue
		}
		data, _ := os.ReadFile(path)
		out = append(out, e.Name()+": "+string(data))
	}
	return out
}

func TestATransactionOfLinksAndBack(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir string, old versions.Tree){
		"on a bare host": func(t *testing.T, dir string, old versions.Tree) {},
		"no folder": func(t *testing.T, dir string, old versions.Tree) {
			must(t, os.Remove(dir))
		},
		"from another version": func(t *testing.T, dir string, old versions.Tree) {
			changes, err := PlanLinks(dir, old, nil)
			must(t, err)
			must(t, ApplyLinks(changes, t.TempDir()))
			must(t, os.Symlink(old.Binary("teleport-update"), dir+"/teleport-update"))
		},
		"over a package's programs": func(t *testing.T, dir string, old versions.Tree) {
			for _, name := range []string{"teleport", "tsh", "tctl"} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("packaged "+name), 0o755))
			}
		},
		"over links to elsewhere": func(t *testing.T, dir string, old versions.Tree) {
			must(t, os.Symlink("/opt/teleport/bin/teleport", dir+"/teleport"))
			must(t, os.Symlink("../lib/tsh", dir+"/tsh"))
		},
		"beside names that are not ours": func(t *testing.T, dir string, old versions.Tree) {
			must(t, os.WriteFile(dir+"/kubectl", []byte("mine"), 0o755))
			must(t, os.Symlink("/opt/dump", dir+"/dump"))
			must(t, os.Mkdir(dir+"/folder", 0o755))
		},
		"some right already": func(t *testing.T, dir string, old versions.Tree) {
			must(t, os.Symlink(filepath.Dir(old.Dir)+"/1.1.0/bin/tsh", dir+"/tsh"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, old, new := twoTrees(t)
			dir := filepath.Join(t.TempDir(), "bin")
			must(t, os.Mkdir(dir, 0o755))
			prepare(t, dir, old)
			var before []string
			if _, err := os.Stat(dir); err == nil {
				before = links(t, dir)
			}

			changes, err := PlanLinks(dir, new, nil)
			must(t, err)
			changes = throughJSON(t, changes)
			if last := changes[len(changes)-1]; filepath.Base(last.Path) != "teleport" {
				t.Errorf("the last change is %s; want teleport", last.Path)
			}
			// A transaction that is interrupted anywhere is done again, or undone.
			for n := range changes {
				must(t, ApplyLinks(changes[:n], store.OriginalDir()))
				must(t, RevertLinks(changes, store.OriginalDir()))
				if _, err := os.Stat(dir); err == nil {
					if got := links(t, dir); !slices.Equal(got, before) {
						t.Fatalf("after %d changes and back: %q; want %q", n, got, before)
					}
				}
			}
			must(t, ApplyLinks(changes[:len(changes)/2], store.OriginalDir()))
			must(t, ApplyLinks(changes, store.OriginalDir()))
			must(t, ApplyLinks(changes, store.OriginalDir()))

			got := links(t, dir)
			for _, name := range []string{"tbot", "tctl", "teleport", "tsh"} {
				if !slices.Contains(got, name+" -> "+new.Binary(name)) {
					t.Errorf("%s is not linked: %q", name, got)
				}
			}
			if slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "dump -> "+old.Dir) }) {
				t.Errorf("a link of ours that the version lacks is still there: %q", got)
			}
			for _, line := range before {
				name, _, _ := strings.Cut(strings.ReplaceAll(line, ":", " "), " ")
				foreign := !slices.Contains([]string{"tbot", "tctl", "teleport", "tsh"}, name) && !strings.Contains(line, "dump -> "+old.Dir)
				if foreign && !slices.Contains(got, line) {
					t.Errorf("%q changed: %q", line, got)
				}
			}
			if problems, err := CheckLinks(dir, new); err != nil || len(problems) > 0 {
				t.Errorf("problems %q, %v", problems, err)
			}
			if again, err := PlanLinks(dir, new, nil); err != nil || len(again) > 0 {
				t.Errorf("after the transaction there is more to change: %+v, %v", again, err)
			}

			must(t, RevertLinks(changes, store.OriginalDir()))
			must(t, RevertLinks(changes, store.OriginalDir()))
			if got := links(t, dir); !slices.Equal(got, before) {
				t.Errorf("reverted to %q; want %q", got, before)
			}
		})
	}
}

func TestARegularFileIsSavedBeforeTheFirstLinkChanges(t *testing.T) {
	store, _, new := twoTrees(t)
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/teleport", []byte("packaged"), 0o755))
	must(t, os.Chmod(dir+"/teleport", 0o711))
	changes, err := PlanLinks(dir, new, nil)
	must(t, err)
	if _, err := os.Stat(store.OriginalDir()); err == nil {
		t.Error("the plan changed something")
	}
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o644))
	if err := ApplyLinks(changes, blocked); err == nil {
		t.Fatal("applied without a place for the original")
	}
	if got := links(t, dir); !slices.Equal(got, []string{"teleport: packaged"}) {
		t.Errorf("changed although the original could not be saved: %q", got)
	}
	must(t, ApplyLinks(changes, store.OriginalDir()))
	must(t, RevertLinks(changes, store.OriginalDir()))
	if info, err := os.Stat(dir + "/teleport"); err != nil || info.Mode() != 0o711 {
		t.Errorf("put back with mode %v, %v; want 0711", info.Mode(), err)
	}
}

func TestAFolderInTheWayIsNamed(t *testing.T) {
	_, _, new := twoTrees(t)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/tsh", 0o755))
	if _, err := PlanLinks(dir, new, nil); err == nil || !strings.Contains(err.Error(), dir+"/tsh is a folder") {
		t.Errorf("error %v; want one that names the folder", err)
	}
}

func TestCheckLinksSaysWhatIsAmiss(t *testing.T) {
	store, old, new := twoTrees(t)
	dir := t.TempDir()
	changes, err := PlanLinks(dir, new, nil)
	must(t, err)
	must(t, ApplyLinks(changes, store.OriginalDir()))
	must(t, os.Remove(dir+"/tsh"))
	must(t, os.Remove(dir+"/tctl"))
	must(t, os.Symlink(old.Binary("tctl"), dir+"/tctl"))
	must(t, os.Remove(dir+"/tbot"))
	must(t, os.WriteFile(dir+"/tbot", []byte("x"), 0o755))
	must(t, os.Symlink(old.Binary("dump"), dir+"/dump"))
	before := links(t, dir)
	got, err := CheckLinks(dir, new)
	must(t, err)
	want := []string{
		dir + "/dump leads to " + old.Binary("dump") + ", which is not part of version 1.1.0 (oss)",
		dir + "/tbot is a regular file, not a link to " + new.Binary("tbot"),
		dir + "/tctl leads to " + old.Binary("tctl") + ", not to " + new.Binary("tctl"),
		dir + "/tsh is missing; it should lead to " + new.Binary("tsh"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if after := links(t, dir); !slices.Equal(after, before) {
		t.Errorf("checking changed %q to %q", before, after)
	}
}

func TestOnlyOurOwnUpdaterIsLinked(t *testing.T) {
	// Two real programs: one of this module, one of another.
	build := func(module string) string {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/go.mod", []byte("module "+module+"\n\ngo 1.26\n"), 0o644))
		must(t, os.WriteFile(dir+"/main.go", []byte("package main\n\nfunc main() {}\n"), 0o644))
		cmd := exec.Command("go", "build", "-o", "program", ".")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		data, err := os.ReadFile(dir + "/program")
		must(t, err)
		return string(data)
	}
	for name, tc := range map[string]struct {
		program string
		ours    bool
	}{
		"ours":        {build("teleport-update"), true},
		"Teleport's":  {build("github.com/gravitational/teleport"), false},
		"a script":    {"#!/bin/sh\n", false},
		"not at all":  {"", false},
		"cut in half": {build("teleport-update")[:4096], false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := versions.NewStore(filepath.Join(t.TempDir(), "versions"))
			tree := treeOf(t, store, "1.0.0")
			if tc.program != "" {
				writeFile(t, tree.Binary("teleport-update"), tc.program)
			}
			names, err := tree.Binaries()
			must(t, err)
			if slices.Contains(names, "teleport-update") != tc.ours {
				t.Errorf("programs to link: %q", names)
			}
			dir := t.TempDir()
			must(t, os.Symlink("/elsewhere", dir+"/teleport-update"))
			changes, err := PlanLinks(dir, tree, nil)
			must(t, err)
			must(t, ApplyLinks(changes, store.OriginalDir()))
			if !slices.Contains(links(t, dir), "teleport-update -> /elsewhere") {
				t.Error("the transaction changed the updater's own link")
			}
			own, err := PlanUpdaterLink(dir, tree)
			must(t, err)
			must(t, ApplyLinks(own, store.OriginalDir()))
			want := "/elsewhere"
			if tc.ours {
				want = tree.Binary("teleport-update")
			}
			if !slices.Contains(links(t, dir), "teleport-update -> "+want) {
				t.Errorf("links: %q; want teleport-update -> %s", links(t, dir), want)
			}
		})
	}
}

// A file that somebody put in the place of a link is kept, and it is said where.
func TestAFileInThePlaceOfALinkIsKeptAndNamed(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	h := &Host{Paths: state.Paths{DataDir: dir, LinkDir: filepath.Join(dir, "bin")}, Log: slog.New(slog.NewTextHandler(&said, nil))}
	link := filepath.Join(h.Paths.LinkDir, "tsh")
	if err := os.MkdirAll(h.Paths.LinkDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(link, []byte("somebody's"), 0o755); err != nil {
		t.Fatal(err)
	}
	changes, err := planChanges(map[string]string{link: "/versions/tsh"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Link(changes); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(h.Paths.Original(), changes[0].Before.Saved)
	if text, err := os.ReadFile(aside); err != nil || string(text) != "somebody's" || !strings.Contains(said.String(), aside) {
		t.Errorf("%s holds %q (%v), and was said:\n%s", aside, text, err, said.String())
	}
}
