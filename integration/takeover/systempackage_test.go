//go:build hosts

package takeover

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// Teleport's package since 17.3 links a program of its own under the name of this one,
// which a shell finds first.
func TestAPackageThatLinksAnotherUpdaterIsTakenOver(t *testing.T) {
	s := &scene{scenes.Bare(t, host.Options{})}
	s.Path = "/usr/bin/teleport-updater"
	s.Sound("1.0.0")
	s.Must("rm", "/etc/teleport.yaml")
	updaterDeb := scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb")
	s.AptRepository(s.SystemDeb(scenes.OldVersion), updaterDeb)
	s.Apt("install", "teleport")
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom(scenes.SystemDir + "/bin/teleport")

	says := func(out string, want bool) {
		t.Helper()
		if strings.Contains(out, "teleport-updater") != want {
			t.Errorf("it says\n%s", out)
		}
	}
	foreign := func(name string, want bool) {
		t.Helper()
		r := s.Try("sh", "-c", name+" version")
		if strings.Contains(r.Stderr, scenes.ForeignWords) != want || !want && r.Code != 0 {
			t.Errorf("%s is another program: want %v; it says %s%s", name, want, r.Stdout, r.Stderr)
		}
	}
	says(s.Apt("install", "teleport-update"), true)
	foreign("teleport-update", true)
	foreign("teleport-updater", false)

	s.Wants("1.0.0")
	out := s.Must("sh", "-c", "teleport-updater enable --proxy "+cluster.ProxyAddress+" --template '"+cluster.TemplateURL+"' --health-window 1s 2>&1")
	says(out, false)
	s.Serves("1.0.0")
	if left := s.Dangling(); len(left) > 0 {
		t.Errorf("links lead to nothing: %q", left)
	}
	foreign("teleport-update", false)
	foreign("teleport-updater", false)

	// One that comes again links what is free.
	s.AptRepository(s.SystemDeb("0.9.5"), updaterDeb)
	s.Untouched("apt install teleport", func() { s.Apt("install", "teleport") })
	foreign("teleport-update", true)
	foreign("teleport-updater", false)
	s.Must("teleport-updater", "update")
	s.Serves("1.0.0")
	s.Must("teleport-updater", "enable")
	s.Serves("1.0.0")
	if left := s.Dangling(); len(left) > 0 {
		t.Errorf("links lead to nothing: %q", left)
	}
	foreign("teleport-update", false)
}
