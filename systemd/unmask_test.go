package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemctl itself masks a unit in a folder, and the advised command has to take the mask away.
func TestTheAdvisedCommandTakesAMaskAway(t *testing.T) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		t.Skip("SKIPPED, nothing was tested: systemctl is missing")
	}
	for _, how := range [][]string{{"mask"}, {"mask --runtime"}, {"mask", "mask --runtime"}} {
		root := t.TempDir()
		system := filepath.Join(root, "usr/lib/systemd/system")
		run := func(command string) {
			t.Helper()
			words := strings.Fields(command)
			if out, err := exec.CommandContext(t.Context(), words[0], append([]string{"--root=" + root}, words[1:]...)...).CombinedOutput(); err != nil {
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
		if err := os.MkdirAll(system, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(system, "a.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for n, command := range how {
			run("systemctl " + command + " a.service")
			if len(masks()) != n+1 {
				t.Fatalf("%s: %q", how, masks())
			}
		}
		for left := len(how); left > 0; left-- {
			run(unmask(filepath.Join(root, "etc/systemd/system"), filepath.Join(root, "run/systemd/system"), "a.service"))
			if len(masks()) != left-1 {
				t.Errorf("after %s, the advised command leaves %q", how, masks())
			}
		}
	}
}
