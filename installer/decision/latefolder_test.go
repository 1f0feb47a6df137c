package decision

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/survey"
)

// The advice for a folder of drop-ins that is a link is typed: the folder has the same content then, and no link is left on its way.
func TestTheAdviceForALinkedFolderOfDropIns(t *testing.T) {
	dir := t.TempDir()
	opt, d := filepath.Join(dir, "opt"), filepath.Join(dir, "teleport.service.d")
	for _, err := range []error{
		os.Mkdir(opt, 0o755), os.WriteFile(filepath.Join(opt, "a.conf"), []byte("[Service]\nNice=5\n"), 0o644),
		os.Symlink("a.conf", filepath.Join(opt, "b.conf")), os.Symlink(opt, d), os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	said := describeLate(survey.LateDropIn{File: filepath.Join(d, "a.conf"), Folder: true}, d)
	command := strings.Split(said, "`")[1]
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, path := range []string{d, filepath.Join(d, "a.conf"), filepath.Join(d, "b.conf")} {
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(d, "b.conf")); err != nil || string(text) != "[Service]\nNice=5\n" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(d + ".new"); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// Where the folder itself is mounted, nothing is moved onto itself.
func TestTheAdviceForAMountedFolderOfDropIns(t *testing.T) {
	const d = "/etc/systemd/system/teleport.service.d"
	if said := describeLate(survey.LateDropIn{File: d + "/a.conf"}, d); strings.Contains(said, "`mkdir") {
		t.Error(said)
	}
}
