package versions

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestVerifyFindsEveryDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, tree Tree)
		want   []string
	}{
		"none": {func(t *testing.T, tree Tree) {}, nil},
		"a program emptied, as by a power cut": {func(t *testing.T, tree Tree) {
			must(t, os.Truncate(tree.Binary("teleport"), 0))
		}, []string{"bin/teleport: content changed"}},
		"a bit flipped": {func(t *testing.T, tree Tree) {
			must(t, os.WriteFile(tree.Binary("tsh"), []byte("Tsh 15.1.1"), 0o755))
		}, []string{"bin/tsh: content changed"}},
		"a file removed, another changed": {func(t *testing.T, tree Tree) {
			must(t, os.Remove(tree.Binary("tctl")))
			must(t, os.WriteFile(tree.UnitFile(), []byte("[Unit]"), 0o644))
		}, []string{"bin/tctl: is missing", "etc/systemd/teleport.service: content changed"}},
		"a mode": {func(t *testing.T, tree Tree) {
			must(t, os.Chmod(tree.Binary("tsh"), 0o750))
		}, []string{"bin/tsh: has mode -rwxr-x---, not -rwxr-xr-x"}},
		"a setuid bit": {func(t *testing.T, tree Tree) {
			must(t, os.Chmod(tree.Binary("tsh"), 0o755|os.ModeSetuid))
		}, []string{"bin/tsh: has mode urwxr-xr-x, not -rwxr-xr-x"}},
		"a link in a program's place": {func(t *testing.T, tree Tree) {
			must(t, os.Rename(tree.Binary("tsh"), tree.Dir+"/tsh"))
			must(t, os.Symlink("../tsh", tree.Binary("tsh")))
		}, []string{"bin/tsh: is not a regular file"}},
		"a folder in a program's place": {func(t *testing.T, tree Tree) {
			must(t, os.Remove(tree.Binary("tsh")))
			must(t, os.Mkdir(tree.Binary("tsh"), 0o755))
		}, []string{"bin/tsh: is not a regular file"}},
		"a program more": {func(t *testing.T, tree Tree) {
			must(t, os.WriteFile(tree.Binary("evil"), nil, 0o755))
		}, []string{"bin/evil: was not part of the release"}},
		"a link more": {func(t *testing.T, tree Tree) {
			must(t, os.Symlink("/bin/sh", tree.Binary("evil")))
		}, []string{"bin/evil: was not part of the release"}},
		"a folder that others may write": {func(t *testing.T, tree Tree) {
			must(t, os.Chmod(tree.Binary(""), 0o777))
		}, []string{"bin: can be written by another user"}},
		"the manifest removed": {func(t *testing.T, tree Tree) {
			must(t, os.Remove(tree.Dir+"/manifest"))
		}, []string{"manifest: was changed after it was installed"}},
		"the manifest emptied": {func(t *testing.T, tree Tree) {
			must(t, os.Truncate(tree.Dir+"/manifest", 0))
		}, []string{"manifest: does not list bin/teleport"}},
		"the manifest cut at a line": {func(t *testing.T, tree Tree) {
			lines := readLines(t, tree.Dir+"/manifest")
			must(t, os.WriteFile(tree.Dir+"/manifest", []byte(strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "tctl") }), "")), 0o644))
		}, []string{"bin/tctl: was not part of the release"}},
		"the manifest of names that climb": {func(t *testing.T, tree Tree) {
			lines := append(readLines(t, tree.Dir+"/manifest"), digestHex(nil)+"  ../../etc/passwd\n")
			must(t, os.WriteFile(tree.Dir+"/manifest", []byte(strings.Join(lines, "")), 0o644))
		}, []string{"manifest: line 6 was not written by teleport-update"}},
		"another edition written in": {func(t *testing.T, tree Tree) {
			must(t, os.WriteFile(tree.Dir+"/edition", []byte("enterprise\n"), 0o644))
		}, []string{"edition: content changed"}},
		"a backup, which is not ours": {func(t *testing.T, tree Tree) {
			must(t, os.Mkdir(tree.BackupDir(), 0o700))
			must(t, os.WriteFile(tree.BackupDir()+"/sqlite.db", nil, 0o600))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testStore(t)
			tree := publish(t, s, oss("15.1.1"))
			tc.damage(t, tree)
			err := tree.Verify(context.Background())
			damaged, ok := errors.AsType[*DamagedError](err)
			if len(tc.want) == 0 {
				if err != nil {
					t.Errorf("error %v; want none", err)
				}
				return
			}
			if !ok || !slices.Equal(damaged.Files, tc.want) {
				t.Errorf("error %v; want damage %q", err, tc.want)
			}
		})
	}
}

func TestVerifySeesAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	s := testStore(t)
	tree := publish(t, s, oss("15.1.1"))
	must(t, os.Chown(tree.Binary("tsh"), 1234, 0))
	must(t, os.Chown(tree.Dir+"/etc/systemd", 1234, 0))
	damaged, ok := errors.AsType[*DamagedError](tree.Verify(context.Background()))
	if want := []string{"bin/tsh: belongs to another user", "etc/systemd: can be written by another user"}; !ok || !slices.Equal(damaged.Files, want) {
		t.Errorf("damage %v; want %q", damaged, want)
	}
}

func TestVerifyStopsWhenItIsCancelled(t *testing.T) {
	s := testStore(t)
	tree := publish(t, s, oss("15.1.1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tree.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want context.Canceled", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return slices.Collect(strings.Lines(string(data)))
}
