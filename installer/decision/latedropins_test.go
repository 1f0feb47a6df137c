package decision

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/survey"
)

// The command for each kind of late drop-in works when it is typed: the content is then in a folder that is there at boot.
func TestTheCommandForALateDropInKeepsItsContent(t *testing.T) {
	const a, b = "[Service]\nNice=5\n", "[Service]\nNice=6\n"
	for name, tc := range map[string]struct {
		late  survey.LateDropIn // in the folder of the test
		links map[string]string
		want  map[string]string // content of the folder below /etc; no link is left
	}{
		"a file": {late: survey.LateDropIn{File: "srv/a.conf"}, want: map[string]string{"a.conf": a}},
		"a link": {late: survey.LateDropIn{File: "srv/c.conf", Link: true}, links: map[string]string{"srv/c.conf": "b.conf"},
			want: map[string]string{"c.conf": b}},
		"a file at the end of a link": {late: survey.LateDropIn{File: "etc/d/a.conf", Link: true, Target: "srv/a.conf"},
			links: map[string]string{"etc/d/a.conf": "../../srv/a.conf"}, want: map[string]string{"a.conf": a}},
		"a folder that is a link": {late: survey.LateDropIn{File: "etc/d/a.conf", Leads: "srv"},
			links: map[string]string{"etc/d": "../srv", "srv/c.conf": "b.conf"}, want: map[string]string{"a.conf": a, "b.conf": b, "c.conf": b}},
		"a folder that is a mount": {late: survey.LateDropIn{File: "etc/d/a.conf", Mount: true},
			links: map[string]string{"etc/d": "../srv"}, want: map[string]string{"a.conf": a, "b.conf": b}},
	} {
		root := t.TempDir()
		in := func(path string) string { return filepath.Join(root, path) }
		writeAll(t, map[string]string{in("srv/a.conf"): a, in("srv/b.conf"): b, in("bin/systemctl"): "#!/bin/sh\necho \"$@\"\n",
			in("bin/umount"): "#!/bin/sh\nrm \"$1\" && mkdir \"$1\"\n"}) // the mount of this test is a link
		for link, to := range tc.links {
			must(t, os.MkdirAll(filepath.Dir(in(link)), 0o755))
			must(t, os.Symlink(to, in(link)))
		}
		late := tc.late
		late.File = in(late.File)
		said := describeLate([]survey.LateDropIn{late}, in("etc/d"))[0]
		_, command, _ := strings.Cut(said, "`")
		command, _, _ = strings.Cut(command, "` ")
		shell := exec.Command("sh", "-c", command)
		shell.Env = []string{"PATH=" + in("bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
		if out, err := shell.CombinedOutput(); err != nil || string(out) != "daemon-reload\n" {
			t.Errorf("%s: %s: %v: %s", name, command, err, out)
			continue
		}
		must(t, os.RemoveAll(in("srv"))) // as at boot
		got := map[string]string{}
		files, err := os.ReadDir(in("etc/d"))
		must(t, err)
		for _, f := range files {
			content, err := os.ReadFile(in("etc/d/" + f.Name()))
			must(t, err)
			got[f.Name()] = string(content)
		}
		for file, want := range tc.want {
			if got[file] != want {
				t.Errorf("%s: %s has %q, want %q", name, file, got[file], want)
			}
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: the folder has %v", name, got)
		}
	}
}

// Two drop-ins of one folder get one command for it: typed again, it would fail.
func TestAFolderOfLateDropInsIsNamedOnce(t *testing.T) {
	of := func(file string) survey.LateDropIn { return survey.LateDropIn{File: "/etc/d/" + file, Leads: "/srv/d"} }
	if said := describeLate([]survey.LateDropIn{of("a.conf"), of("b.conf"), {File: "/opt/c.conf"}}, "/etc/d"); len(said) != 2 {
		t.Errorf("status says %q", said)
	}
}

// A drop-in that is late where the command would move it to is left there: mv refuses "the same file".
func TestADropInIsNotMovedOntoItself(t *testing.T) {
	said := describeLate([]survey.LateDropIn{{File: "/etc/d/a.conf"}}, "/etc/d")
	if len(said) != 1 || strings.Contains(said[0], "`") {
		t.Errorf("status says %q", said)
	}
}

func writeAll(t *testing.T, files map[string]string) {
	t.Helper()
	for path, content := range files {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o755))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
