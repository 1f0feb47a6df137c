package installer

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEnableSaysWhichProgramAShellFinds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	dirs := map[string]string{}
	for _, name := range []string{"ours", "theirs", "dangling", "data", "none"} {
		dirs[name] = filepath.Join(root, name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := func(dir string) string { return filepath.Join(dirs[dir], "teleport-update") }
	for _, err := range []error{
		os.Symlink(self, file("ours")),
		os.WriteFile(file("theirs"), []byte("#!/bin/sh\n"), 0o755),
		os.Symlink("/opt/teleport/system/bin/teleport-update", file("dangling")),
		os.WriteFile(file("data"), []byte("#!/bin/sh\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		path []string
		want string
	}{
		"another program comes first":   {[]string{"none", "theirs", "ours"}, file("theirs")},
		"this one comes first":          {[]string{"ours", "theirs"}, ""},
		"a link to nothing is no match": {[]string{"dangling", "ours", "theirs"}, ""},
		"a file that cannot be run":     {[]string{"data", "ours"}, ""},
		"neither is there":              {[]string{"none"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			for _, dir := range tc.path {
				path += string(filepath.ListSeparator) + dirs[dir]
			}
			if got := foreignUpdater(path[1:]); got != tc.want {
				t.Errorf("got %q; want %q", got, tc.want)
			}
		})
	}
}
