package ospackage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestBehindTheFenceNothingRealIsLost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, nothing was tested: mounts need root")
	}
	root := t.TempDir()
	for path, text := range map[string]string{
		"lib/teleport/proc/sqlite.db": "rows", "lib/dpkg/status": "old", "lib/file": "a file", "bin/teleport": "ours",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("lib/dpkg", filepath.Join(root, "lib/link")); err != nil {
		t.Fatal(err)
	}
	f := Fence{Gone: []string{root + "/lib/teleport", root + "/lib/none"}, Empty: []string{root + "/bin", root + "/none"}}
	var out bytes.Buffer
	cmd := exec.Command("sh", "-ec", `
		rm -rf lib/teleport
		test ! -e lib/teleport
		cat lib/file
		readlink lib/link
		ls bin
		echo new >lib/dpkg/status
		echo theirs >bin/tsh
		rm -f bin/teleport`)
	cmd.Dir = "/"
	cmd.Args[2] = "cd " + root + "; " + cmd.Args[2]
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := f.behind(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "a filelib/dpkg\n" {
		t.Errorf("it ended with %v and saw %q", err, out.String())
	}
	for path, want := range map[string]string{
		"lib/teleport/proc/sqlite.db": "rows", "lib/dpkg/status": "new\n", "bin/teleport": "ours",
	} {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "bin/tsh")); err == nil {
		t.Error("what was put behind the fence is on this side of it")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || bytes.Contains(mounts, []byte(root)) {
		t.Errorf("mounts are left on this side: %v", err)
	}
}
