package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// folderOf holds releases of versions, each with its checksum.
func folderOf(t *testing.T, dir string, versions ...string) {
	t.Helper()
	for _, v := range versions {
		name := "teleport-v" + v + "-linux-amd64-bin.tar.gz"
		write(t, filepath.Join(dir, name), name)
		write(t, filepath.Join(dir, name+".sha256"), fmt.Sprintf("%x\n", sha256.Sum256([]byte(name))))
	}
}

// versionsOf are those that a folder has, as its files say.
func versionsOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "teleport-v"), "-linux-amd64-bin.tar.gz")
		if !strings.HasSuffix(e.Name(), ".sha256") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestMirrorPrunes(t *testing.T) {
	dir := t.TempDir()
	a := &adminRun{t: t, dir: t.TempDir()}
	to := filepath.Join(dir, "m")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	// A comma in a folder's name is no end of a template.
	source := filepath.Join(dir, "from, here")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	folderOf(t, source, "15.0.0", "15.1.0", "15.2.0-rc.1", "15.2.0", "9.0.0", "16.0.0")
	os.Remove(filepath.Join(source, "teleport-v16.0.0-linux-amd64-bin.tar.gz.sha256")) // a copy in progress
	write(t, filepath.Join(to, "README"), "not a release")
	mirror := func(code int, want string, args ...string) {
		t.Helper()
		args = append([]string{"mirror", "--to", to, "--arch", "amd64", "--template", "file://" + source + "/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz"}, args...)
		if got, out := a.run("", args...); got != code || !strings.Contains(out, want) {
			t.Fatalf("%q: exit code %d\n%s\nwant %d and %s", args, got, out, code, want)
		}
	}
	has := func(want string) {
		t.Helper()
		if got := versionsOf(t, to); got != want {
			t.Errorf("the folder has %s; want %s", got, want)
		}
	}
	mirror(0, "", "--newest", "2")
	has("15.2.0 15.2.0-rc.1 README")
	mirror(0, "", "--newest", "1", "15.0.0", "9.0.0")
	has("15.0.0 15.2.0 15.2.0-rc.1 9.0.0 README")
	mirror(2, "would remove everything", "--prune")
	mirror(2, "--keep is for --prune", "--keep", "2", "15.0.0")
	mirror(0, "teleport-v15.0.0-linux-amd64-bin.tar.gz  is there\nteleport-v15.1.0-linux-amd64-bin.tar.gz  would be saved\n", "--dry-run", "15.0.0", "15.1.0")
	mirror(0, `{"file":"teleport-v15.1.0-linux-amd64-bin.tar.gz","is":"would be saved"}`, "--dry-run", "15.1.0", "-o", "json")
	has("15.0.0 15.2.0 15.2.0-rc.1 9.0.0 README")
	mirror(2, "1 or more", "--prune", "--keep", "0")
	mirror(2, "1 or more", "--newest", "-1")
	mirror(2, "semantic version", "--prune", "latest")
	mirror(0, "teleport-v9.0.0-linux-amd64-bin.tar.gz  would be removed\n", "--prune", "--dry-run", "15.0.0", "--keep", "2")
	mirror(0, `{"file":"teleport-v9.0.0-linux-amd64-bin.tar.gz","is":"would be removed"}`, "--prune", "--dry-run", "15.0.0", "--keep", "2", "-o", "json")
	has("15.0.0 15.2.0 15.2.0-rc.1 9.0.0 README")
	// What cannot be had keeps everything.
	mirror(1, "1 of 1 tarballs are missing", "--prune", "15.9.0")
	has("15.0.0 15.2.0 15.2.0-rc.1 9.0.0 README")
	mirror(0, "teleport-v9.0.0-linux-amd64-bin.tar.gz  removed\n", "--prune", "15.0.0", "--keep", "2")
	has("15.0.0 15.2.0 15.2.0-rc.1 README")

	// What hosts are told stays, whoever does not name it.
	s := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(a.dir, "store", "store.db"), "--admin-socket", a.socket(), "--releases", to)
	if code, out := a.run("", "set-version", "15.2.0-rc.1", "--start", "15.0.0", "--schedule", "critical"); code != 0 {
		t.Fatal(out)
	}
	mirror(0, "", "--prune", "--keep", "1")
	has("15.0.0 15.2.0 15.2.0-rc.1 README")
	// So does a version of its own that a group was sent back to.
	folderOf(t, to, "14.9.0")
	hour := time.Now().UTC().Hour()
	write(t, filepath.Join(dir, "config.yaml"), fmt.Sprintf("kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: enabled, strategy: "+
		"time-based, schedules: {regular: [{name: prod, days: ['*'], start_hour: %d}, {name: last, days: ['*'], start_hour: %d}]}}}\n", hour, (hour+12)%24))
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(dir, "config.yaml")}, {"set-version", "15.2.0-rc.1", "--start", "15.0.0", "--schedule", "regular"},
		{"rollout", "start", "prod", "--force"}, {"rollout", "back", "prod", "--to", "14.9.0"},
	} {
		if code, out := a.run("", args...); code != 0 {
			t.Fatalf("%s: %s", args, out)
		}
	}
	mirror(0, "", "--prune", "--keep", "1")
	has("14.9.0 15.0.0 15.2.0 15.2.0-rc.1 README")
	s.stop(os.Kill)
	os.Remove(filepath.Join(to, "teleport-v14.9.0-linux-amd64-bin.tar.gz.sha256"))
	os.Remove(filepath.Join(to, "teleport-v14.9.0-linux-amd64-bin.tar.gz"))
	mirror(1, "which versions hosts need cannot be found out", "--prune", "--keep", "1")
	has("15.0.0 15.2.0 15.2.0-rc.1 README")
	if err := os.Remove(a.socket()); err != nil {
		t.Fatal(err)
	}
	mirror(0, "", "--prune", "--keep", "1")
	has("15.2.0 README")
	for _, e := range []string{"teleport-v15.2.0-linux-amd64-bin.tar.gz.sha256", "README"} {
		if _, err := os.Stat(filepath.Join(to, e)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "teleport-v15.0.0-linux-amd64-bin.tar.gz.sha256")); err == nil {
		t.Error("a checksum without its tarball is left")
	}
	if code, out := a.run("", "mirror", "--to", to, "--newest", "2"); code != 1 || !strings.Contains(out, "no template is a folder") {
		t.Errorf("the newest of what has no list: %d %s", code, out)
	}
}

// Values of lists may be in one word, or in several flags, before and after the words.
func TestListsInFlags(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{
		"--arch amd64,arm64 --edition oss --edition enterprise 15.1.1",
		"15.1.1 --arch amd64 --arch arm64 --edition oss,enterprise",
		"--arch amd64 15.1.1 --arch=arm64 --edition oss,enterprise",
	} {
		_, out := (&adminRun{t: t, dir: dir}).run("", append([]string{"mirror", "--to", filepath.Join(dir, "m"), "--template", "file://" + dir + "/none"}, strings.Fields(args)...)...)
		if !strings.Contains(out, "4 of 4 tarballs are missing") {
			t.Errorf("%s:\n%s", args, out)
		}
	}
	a := &adminRun{t: t, dir: dir}
	t.Setenv("TELEPORT_FIND_MIRROR_TEMPLATE", "file:///none/a,b/{{.Version}}\nfile:///none/c/{{.Version}}\n")
	if _, out := a.run("", "mirror", "--to", filepath.Join(dir, "m"), "15.1.1"); !strings.Contains(out, "/none/a,b/15.1.1") || !strings.Contains(out, "/none/c/15.1.1") {
		t.Errorf("templates of the environment:\n%s", out)
	}
}
