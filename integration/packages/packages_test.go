//go:build hosts

package packages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teleport-update/packaging"
)

const version = "1.2.3-rc.1"

var commit = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// built are the packages of both programs for both architectures.
var built = sync.OnceValues(func() ([]string, error) {
	var err error
	if builtIn, err = os.MkdirTemp("", "teleport-packages-"); err != nil {
		return nil, err
	}
	return build(context.Background(), "../..", builtIn, architectures...)
})

// builtIn is their folder, once they are built.
var builtIn string

var architectures = []string{"amd64", "arm64"}

func build(ctx context.Context, module, out string, arch ...string) ([]string, error) {
	return packaging.Build(ctx, packaging.Options{
		Module: module, Out: out, Version: version, Date: commit,
		Arch: arch, Formats: []string{"deb", "rpm", "program"},
	})
}

func packages(t *testing.T, format string) (paths []string) {
	t.Helper()
	all, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if filepath.Ext(p) == "."+format {
			paths = append(paths, p)
		}
	}
	if len(paths) != 4 {
		t.Fatalf("built %v; want each program for each architecture as %s", all, format)
	}
	return paths
}

// tool makes sure that a program is here.
func tool(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Geteuid() == 0 {
		cmd := exec.Command("apt-get", "install", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", pkg)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		t.Logf("install %s: %v\n%s", pkg, err, out)
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is required (CI=true): apt-get install %s", program, pkg)
	}
	t.Skipf("SKIPPED, nothing was tested: %s is not here: apt-get install %s", program, pkg)
}

// Two builds give the same bytes: from another folder, in another place of the
// world, for somebody who keeps files private. FAULTS=all builds for all architectures
// again, and not for the machine's alone.
func TestTwoBuildsAreTheSame(t *testing.T) {
	first, err := built()
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "another folder")
	copyModule(t, "../..", module)
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LANG", "C")
	t.Setenv("HOSTNAME", "elsewhere")
	before := syscall.Umask(0o077)
	again := []string{runtime.GOARCH}
	if os.Getenv("FAULTS") == "all" {
		again = architectures
	}
	second, err := build(t.Context(), module, filepath.Join(module, "out"), again...)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 12 || len(second) != 6*len(again) {
		t.Fatalf("built %v, then %v", first, second)
	}
	digests := map[string]string{}
	for _, path := range first {
		digests[filepath.Base(path)] = digest(t, path)
	}
	for _, path := range second {
		if a, b := digests[filepath.Base(path)], digest(t, path); a != b {
			t.Errorf("%s is %q, then %s", filepath.Base(path), a, b)
		}
	}
}

func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// copyModule copies what is tracked, as it is now.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	list, err := exec.Command("git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // removed, but not yet from the index
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLintianHasNothingToSay(t *testing.T) {
	t.Parallel()
	tool(t, "lintian", "lintian")
	for _, deb := range packages(t, "deb") {
		cmd := exec.Command("lintian", "--tag-display-limit", "0", "--info", "--fail-on", "error,warning", deb)
		var says bytes.Buffer
		cmd.Stdout, cmd.Stderr = &says, &says
		if err := cmd.Run(); err != nil {
			t.Errorf("lintian of %s: %v\n%s", filepath.Base(deb), err, says.String())
		}
	}
}

func TestRpmlintHasNothingToSay(t *testing.T) {
	t.Parallel()
	tool(t, "rpmlint", "rpmlint")
	tool(t, "rpm", "rpm")
	// rpmlint unpacks with cpio, and names in an rpm may be absolute: cpio would write over this machine's files.
	tool(t, "cpio", "cpio")
	bin := t.TempDir()
	confined := "#!/bin/sh\nexec /usr/bin/cpio --no-absolute-filenames \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "cpio"), []byte(confined), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, rpm := range packages(t, "rpm") {
		cmd := exec.Command("rpmlint", "-c", "../../packaging/rpmlint.toml", rpm)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), ": W: ") || !strings.Contains(string(out), "0 errors, 0 warnings") {
			t.Errorf("rpmlint of %s: %v\n%s", filepath.Base(rpm), err, out)
		}
	}
}

func TestTheManualIsWellFormed(t *testing.T) {
	t.Parallel()
	tool(t, "man", "man-db")
	for _, page := range []string{"teleport-update/teleport-update.8", "teleport-find/teleport-find.8"} {
		cmd := exec.Command("man", "--warnings", "--encoding=UTF-8", "--local-file", "../../packaging/"+page)
		cmd.Env = append(os.Environ(), "MANROFFSEQ=", "MANWIDTH=80")
		var out, warnings bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 || !strings.Contains(out.String(), "EXIT STATUS") {
			t.Errorf("%s: %v\n%s", page, err, warnings.String())
		}
	}
}

// What a package holds, and nothing more; each file readable by everybody, but for the one
// that may hold a password, and writable by root alone.
func TestFilesAndTheirModes(t *testing.T) {
	t.Parallel()
	tool(t, "rpm", "rpm")
	for _, deb := range packages(t, "deb") {
		out, err := exec.Command("dpkg-deb", "--contents", deb).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			mode, owner, name := fields[0], fields[1], fields[5]
			want := "-rw-r--r--"
			switch {
			case strings.HasSuffix(name, "/"):
				want = "drwxr-xr-x"
			case len(fields) > 6 && fields[6] == "->": // the second name, and its page
				want = "lrwxrwxrwx"
			case strings.HasPrefix(name, "./usr/bin/"):
				want = "-rwxr-xr-x"
			case name == "./etc/default/teleport-update": // a proxy's password may be in it
				want = "-rw-------"
			}
			if mode != want || owner != "root/root" {
				t.Errorf("%s: %s is %s %s; want %s", filepath.Base(deb), name, mode, owner, want)
			}
		}
	}
	for _, rpm := range packages(t, "rpm") {
		out, err := exec.Command("rpm", "--query", "--package", "--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]`, rpm).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			want := "-rw-r--r--"
			switch {
			case strings.HasPrefix(fields[2], "/usr/bin/"):
				want = "-rwxr-xr-x"
			case fields[2] == "/etc/default/teleport-update":
				want = "-rw-------"
			case strings.HasPrefix(fields[0], "d"): // rpm leaves what no package owns
				want = "drwxr-xr-x"
			}
			if strings.Contains(fields[2], "/teleport-updater") { // the second name, and its page
				want = "l---------" // rpm has no modes of links
			}
			if fields[0] != want || fields[1] != "root:root" {
				t.Errorf("%s: %s; want %s root:root", filepath.Base(rpm), strings.TrimSpace(line), want)
			}
		}
	}
}

// The maintainer scripts are in no package that nobody looked at.
func TestScriptsAreCleanShell(t *testing.T) {
	t.Parallel()
	tool(t, "shellcheck", "shellcheck")
	var scripts []string
	err := filepath.WalkDir("../../packaging", func(path string, d fs.DirEntry, err error) error {
		if dir := filepath.Base(filepath.Dir(path)); err == nil && !d.IsDir() && (dir == "deb" || dir == "rpm") {
			scripts = append(scripts, path)
		}
		return err
	})
	if err != nil || len(scripts) < 10 {
		t.Fatalf("found %v, %v", scripts, err)
	}
	if out, err := exec.Command("shellcheck", append([]string{"--shell=sh"}, scripts...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
