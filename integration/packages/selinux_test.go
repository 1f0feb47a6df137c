//go:build hosts

package packages

import (
	"os"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// This kernel has no SELinux; its policy tools run all the same, and tell which
// label a path gets. They take minutes to install and to load.
func TestThePackagesPolicyLabelsThePrograms(t *testing.T) {
	if os.Getenv("FAULTS") != "all" {
		t.Skip("this is for the night: `make test-nightly` runs it")
	}
	s := bareScene(t, host.Options{Packages: []string{"selinux-policy-default"}})
	label := func(path string) string {
		fields := strings.Split(s.Must("matchpathcon", "-n", path), ":")
		if len(fields) < 3 {
			t.Fatalf("matchpathcon says %v of %s", fields, path)
		}
		return fields[2]
	}
	programs := []string{
		"/var/lib/teleport/updater/teleport-update", "/opt/teleport-update/1.0.0/bin/teleport", "/opt/teleport-update/1.0.0_enterprise/bin",
	}
	others := []string{
		"/var/lib/teleport/versions/updates.yaml", "/var/lib/teleport/versions/1.0.0/backup/sqlite.db", "/var/lib/teleport/proc/sqlite.db",
	}
	before := label(programs[0])
	if before == "bin_t" {
		t.Fatal("the policy labels the programs by itself: the test shows nothing")
	}
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	s.Apt("install", "teleport-update")
	for _, path := range programs {
		if got := label(path); got != "bin_t" {
			t.Errorf("%s gets the label %s", path, got)
		}
	}
	for _, path := range others {
		if got := label(path); got != before {
			t.Errorf("%s gets the label %s; want %s", path, got, before)
		}
	}

	// A relabelling after the package is gone must not take the label of the copy away.
	s.Must("mkdir", "-p", "/var/lib/teleport/updater")
	s.Apt("remove", "teleport-update")
	if got := label(programs[0]); got != "bin_t" {
		t.Errorf("without the package, but with the copy on disk, %s gets the label %s", programs[0], got)
	}
	s.Must("rm", "-r", "/var/lib/teleport")
	s.Apt("purge", "teleport-update")
	if got := label(programs[0]); got != before {
		t.Errorf("after the purge, without the copy, %s gets the label %s", programs[0], got)
	}
}
