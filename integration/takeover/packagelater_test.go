//go:build hosts

package takeover

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// aptAtWork has apt install a package that is not done before goAhead exists.
func (s *scene) aptAtWork() *host.Process {
	s.T.Helper()
	slow := filepath.Join(s.T.TempDir(), "slow")
	s.Check(os.MkdirAll(slow+"/DEBIAN", 0o755))
	s.Check(os.WriteFile(slow+"/DEBIAN/control", []byte("Package: slow\nVersion: 1\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: slow\n"), 0o644))
	s.Check(os.WriteFile(slow+"/DEBIAN/postinst", []byte("#!/bin/sh\ntouch /srv/slow\nwhile [ ! -e "+scenes.GoAhead+" ]; do sleep 0.1; done\n"), 0o755))
	if out, err := exec.CommandContext(s.T.Context(), "dpkg-deb", "--root-owner-group", "--build", slow).CombinedOutput(); err != nil {
		s.T.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	s.Put(slow+".deb", "/srv/slow.deb")
	apt := s.Background(host.Command{Args: []string{"apt-get", "-y", "install", "/srv/slow.deb"}, Env: []string{"DEBIAN_FRONTEND=noninteractive"}})
	host.Wait(s.T, patience, func() error {
		if !s.Exists("/srv/slow") {
			return fmt.Errorf("apt is not at work yet")
		}
		return nil
	})
	return apt
}

// A package comes onto a host whose agent is the updater's already.
func TestAPackageThatComesLaterIsRememberedUntilItIsGone(t *testing.T) {
	s := newScene(t)
	s.Put(s.Program(scenes.Endat), "/root/endat")
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.AptRepository(s.OldDeb(scenes.OldVersion, ""))
	comes := func() { s.Apt("install", "-o", "Dpkg::Options::=--force-confold", "teleport") }
	gone := func() {
		t.Helper()
		s.Serves("1.0.0")
		if got := s.Try("dpkg-query", "-W", "-f", "${db:Status-Status}", "teleport").Stdout; got == "installed" {
			t.Error("the package is still there")
		}
		if left := s.Status().PackageLeft; left != nil || strings.Contains(s.Read(store+"/updates.yaml"), "packages_left") {
			t.Errorf("it is remembered: %s", scenes.Text(left))
		}
	}

	// The take-over is a transaction that begins with the version proven.
	comes()
	s.KilledBefore("kept-0", "enable")
	if got := s.Phase(); got != "proven" {
		t.Errorf("when the first copy was about to be made the journal said %q", got)
	}
	s.KilledBefore("/var/lib/dpkg/", "recover")
	if journal := s.Read(store + "/journal.json"); !strings.Contains(journal, `"noted": true`) {
		t.Errorf("when dpkg was about to begin the journal did not say what it may take along:\n%s", journal)
	}
	s.Breaks(cluster.FindDown) // which is not needed for it
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that goes on with it ends with %d", code)
	}
	gone()
	s.Breaks(nil)

	// One that cannot be removed now is remembered.
	comes()
	other := s.aptAtWork()
	s.Enable("--health-window", "1s")
	if left := scenes.Text(s.Status().PackageLeft); !strings.Contains(left, "packages cannot be changed now") {
		t.Errorf("status: package left %s", left)
	}
	s.Write(scenes.GoAhead, "")
	s.Ends(other, 0)
	// And forgotten, when somebody else removed it, without its scripts, which would
	// take the agent along.
	s.Must("sh", "-ec", "rm /var/lib/dpkg/info/teleport.prerm /var/lib/dpkg/info/teleport.postrm; cp /etc/teleport.yaml /root; dpkg --purge teleport; cp /root/teleport.yaml /etc")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after it ends with %d", code)
	}
	gone()
}
