package packaging

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The toolchain is named once, in go.mod: make and the packages use it, whatever the environment says.
func TestOneToolchainBuildsEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks the go command about each tool")
	}
	toolchain, err := Toolchain("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the tools' module names it too", func(t *testing.T) {
		data, err := os.ReadFile("../tools.mod")
		if err != nil || !strings.Contains(string(data), "\ntoolchain "+toolchain+"\n") {
			t.Errorf("tools.mod has no line toolchain %s (%v)", toolchain, err)
		}
	})
	t.Run("make exports it", func(t *testing.T) {
		dir := t.TempDir()
		rule := filepath.Join(dir, "rule.mk")
		if err := os.WriteFile(rule, []byte("says:\n\t@echo $$GOTOOLCHAIN\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("make", "-s", "--no-print-directory", "-f", "Makefile", "-f", rule, "says")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != toolchain {
			t.Errorf("make runs go with GOTOOLCHAIN=%q (%v); want %s", out, err, toolchain)
		}
	})
	t.Run("a program of a package is built with it", func(t *testing.T) {
		t.Setenv("GOTOOLCHAIN", "local")
		path := filepath.Join(t.TempDir(), "teleport-update")
		o := Options{Module: "..", Version: "1.2.3"}
		if err := o.compile(t.Context(), path, "teleport-update", "amd64"); err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.GoVersion != toolchain {
			t.Errorf("the program is built with %s; want %s", info.GoVersion, toolchain)
		}
	})
	t.Run("the notices of a package have its license", func(t *testing.T) {
		t.Setenv("GOTOOLCHAIN", "local")
		notices, err := Options{Module: ".."}.notices(t.Context(), "teleport-update", "amd64")
		if err != nil || !strings.Contains(string(notices), "\n==== Go "+toolchain+"\n") {
			t.Errorf("the notices do not name %s (%v)", toolchain, err)
		}
	})
}
