package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// systemctl itself masks a unit in a folder, and the advised command has to take the mask away.
func TestTheAdvisedCommandTakesAMaskAway(t *testing.T) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		t.Skip("SKIPPED, nothing was tested: systemctl is missing")
	}
	const empty = "an empty file"
	for _, how := range [][]string{{"mask"}, {"mask --runtime"}, {"mask", "mask --runtime"}, {empty}, {empty, "mask --runtime"}} {
		root := t.TempDir()
		system := filepath.Join(root, "usr/lib/systemd/system")
		run := func(command string) {
			t.Helper()
			// There is no systemd that could read the units again.
			words := strings.Fields(strings.TrimSuffix(command, " && systemctl daemon-reload"))
			if words[0] == "systemctl" {
				words = slices.Insert(words, 1, "--root="+root)
			}
			if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
		}
		masks := func() (found []string) {
			for _, dir := range []string{"etc/systemd/system", "run/systemd/system"} {
				links, err := filepath.Glob(filepath.Join(root, dir, "a.service"))
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, links...)
			}
			return found
		}
		for _, dir := range []string{system, filepath.Join(root, "etc/systemd/system")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(system, "a.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for n, command := range how {
			if command == empty {
				run("touch " + filepath.Join(root, "etc/systemd/system/a.service"))
			} else {
				run("systemctl " + command + " a.service")
			}
			if len(masks()) != n+1 {
				t.Fatalf("%s: %q", how, masks())
			}
		}
		for left := len(how); left > 0; left-- {
			run(unmask([]string{filepath.Join(root, "etc/systemd/system"), filepath.Join(root, "run/systemd/system")}, "a.service"))
			if len(masks()) != left-1 {
				t.Errorf("after %s, the advised command leaves %q", how, masks())
			}
		}
	}
}
