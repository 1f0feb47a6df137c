package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/sharedbuffer"
)

func TestMirrorFillsAFolderThatServeServes(t *testing.T) {
	source, to := t.TempDir(), filepath.Join(t.TempDir(), "stick", "releases")
	var lines []string
	for _, name := range []string{
		"teleport-v15.1.1-linux-amd64-bin.tar.gz", "teleport-v15.1.1-linux-arm64-bin.tar.gz",
		"teleport-ent-v15.1.1-linux-amd64-bin.tar.gz", "teleport-ent-v15.1.1-linux-arm64-bin.tar.gz",
		"teleport-v15.2.0-linux-amd64-bin.tar.gz", "teleport-ent-v15.2.0-linux-amd64-bin.tar.gz",
	} {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
		write(t, filepath.Join(source, name), name)
		write(t, filepath.Join(source, name+".sha256"), sum+"\n")
		lines = append(lines, sum+"  "+name)
	}
	mirror := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, log sharedbuffer.Buffer
		cmd := exec.Command(binary(t), append([]string{"mirror", "--to", to, "--edition", "oss,enterprise", "--template",
			"file://" + source + "/teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &log
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("mirror %v: exit code %d; want %d\n%s", args, got, code, log.String())
		}
		return out.String(), log.String()
	}
	want := func(how string, which ...int) (want string) {
		for _, i := range which {
			want += lines[i] + "  " + how + "\n"
		}
		return want
	}
	if out, _ := mirror(0, "--arch", "amd64", "--arch", "arm64", "v15.1.1", "15.1.1"); out != want("saved", 0, 1, 2, 3) {
		t.Errorf("it says\n%s\nwant\n%s", out, want("saved", 0, 1, 2, 3))
	}
	if out, _ := mirror(0, "--arch", "amd64", "15.1.1", "15.2.0"); out != want("was there", 0, 2)+want("saved", 4, 5) {
		t.Errorf("the second time it says\n%s", out)
	}
	// One that is not there does not keep the others from coming.
	os.Remove(filepath.Join(to, "teleport-ent-v15.2.0-linux-amd64-bin.tar.gz"))
	out, log := mirror(1, "--arch", "amd64", "15.3.0", "15.2.0")
	if out != want("was there", 4)+want("saved", 5) || !strings.Contains(log, "2 of 4 tarballs are missing") || !strings.Contains(log, "15.3.0") {
		t.Errorf("it says\n%s\n%s", out, log)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		for file, content := range map[string]string{name: name, name + ".sha256": sum + "  " + name + "\n"} {
			if data, err := os.ReadFile(filepath.Join(to, file)); err != nil || string(data) != content {
				t.Errorf("%s holds %q, %v", file, data, err)
			}
		}
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != 12 || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("the folder holds %v, %v", entries, err)
	}

	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--releases", to, "--edition", "oss")
	// Of 15.2.0 there is one architecture only.
	if got := s.ask("").Version; got != "15.1.1" {
		t.Errorf("served from there is %s", got)
	}
}

func TestServeTellsHowToInstallTheUpdater(t *testing.T) {
	packages := t.TempDir()
	write(t, filepath.Join(packages, "teleport-update_1.0.0_amd64.deb"), "package")
	const public = "https://find.example.com"
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--packages", packages, "--releases", t.TempDir(), "--agent-version", "15.1.1", "--edition", "oss",
		"--public-url", public+":443/")
	if status, body := s.get("/packages/SHA256SUMS"); status != 200 || body != fmt.Sprintf("%x  teleport-update_1.0.0_amd64.deb\n", sha256.Sum256([]byte("package"))) {
		t.Errorf("the list of packages: %d %s", status, body)
	}
	status, body := s.get("/scripts/install.sh")
	if status != 200 || !strings.Contains(body, "\n\tserver='"+public+"'\n\treleases=yes\n") {
		t.Errorf("the install script: %d %s", status, body)
	}
	s.stop(os.Interrupt)
	for _, want := range []string{
		"\n  teleport-update enable --proxy find.example.com --template '" + public + "/releases/teleport{{",
		"or, where the updater is not installed:\n  curl -fsS " + public + "/scripts/install.sh | sh\n",
	} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("it says\n%s\nwant\n%s", s.out.String(), want)
		}
	}
}

// A proxy on this machine passes on what a loopback listener serves, and a script with the listener's address would send hosts to
// whoever listens on their own.
func TestALoopbackListenerServesNoScriptOfItsOwnAddress(t *testing.T) {
	packages := t.TempDir()
	write(t, filepath.Join(packages, "teleport-update_1.0.0_amd64.deb"), "package")
	for _, flags := range [][]string{nil, {"--self-signed", "--hostname", "find.example.com"}} {
		s := serveProcess(t, nil, append([]string{"--listen", "127.0.0.1:0", "--packages", packages, "--agent-version", "15.1.1"}, flags...)...)
		if flags == nil {
			if status, body := s.get("/scripts/install.sh"); status != 404 {
				t.Errorf("the install script: %d %s", status, body)
			}
		}
		s.stop(os.Interrupt)
		if out := s.out.String(); strings.Contains(out, "install.sh") || !strings.Contains(out, "the install script is not served") || !strings.Contains(out, "--public-url") {
			t.Errorf("%q: it says\n%s", flags, out)
		}
	}
}
