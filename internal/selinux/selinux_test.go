package selinux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRestore(t *testing.T) {
	for _, tc := range []struct {
		name      string
		inUse     bool
		installed bool
		fails     bool
		wantRun   bool
	}{
		{name: "labels the folder", inUse: true, installed: true, wantRun: true},
		{name: "does nothing where SELinux is not in use", installed: true},
		{name: "does nothing where files cannot be labelled", inUse: true},
		{name: "says why it failed", inUse: true, installed: true, fails: true, wantRun: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			l := Labels{FileSystem: filepath.Join(dir, "selinux"), Programs: []string{filepath.Join(dir, "nothing"), filepath.Join(dir, "restorecon")}}
			if tc.inUse {
				write(t, filepath.Join(l.FileSystem, "enforce"), "1", 0o644)
			}
			if tc.installed {
				script := "#!/bin/sh\necho \"$@\" >" + dir + "/ran\n"
				if tc.fails {
					script += "echo no such policy >&2; exit 1\n"
				}
				write(t, l.Programs[1], script, 0o755)
			}
			err := l.Restore(t.Context(), "/srv/versions/1.0.0")
			if (err != nil) != tc.fails || tc.fails && !strings.Contains(err.Error(), "no such policy") {
				t.Errorf("error %v", err)
			}
			ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
			if want := map[bool]string{true: "-RF /srv/versions/1.0.0\n"}[tc.wantRun]; string(ran) != want {
				t.Errorf("restorecon was called with %q; want %q", ran, want)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
