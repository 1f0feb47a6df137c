package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make repository builds no packages that make packages has built, unless files differ from the commit.
func TestMakeBuildsPackagesOnce(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("packaging/VERSION", "1.2.3\n")
	write(".gitignore", "/build\n")
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "--quiet", "--no-gpg-sign", "--message", "m"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	builds := func(want bool, why string) {
		t.Helper()
		cmd := exec.Command("make", "--no-print-directory", "--dry-run", "--file", makefile, "repository", "KEY=ops@example.com")
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if built := strings.Contains(string(out), "./packaging/mkpackages"); err != nil || built != want || !strings.Contains(string(out), "publish.sh --key 'ops@example.com'") {
			t.Errorf("%s: make builds packages: %v (%v)\n%s", why, built, err, out)
		}
	}
	builds(true, "there are none")
	write("build/packages/.built-1.2.2", "")
	builds(true, "they are of another version")
	write("build/packages/.built-1.2.3", "")
	builds(false, "they are of this version")
	write(".gitignore", "/build\n/other\n")
	write("build/packages/.built-1.2.3-dirty", "")
	builds(true, "files differ from the commit")
}
