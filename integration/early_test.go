//go:build hosts

package integration

import (
	"fmt"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// early is a host whose agent somebody restarted in the middle of a switch, by
// links that were the new version's already; the updater was killed before it
// could note that they are.
func early(t *testing.T, schema int) *scene {
	s := newScene(t)
	s.release(release.Spec{Version: "1.0.0", Schema: 1})
	s.release(release.Spec{Version: "1.1.0", Schema: schema})
	s.writes("wal", 50)
	s.running("1.0.0")
	s.wants("1.1.0")
	s.killedInMidWatch("1.1.0")
	s.editJournal(func(j map[string]any) {
		j["phase"] = "begun"
		j["reached"] = "stop"
	})
	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	return s
}

// undone asserts that the next run brings 1.0.0 back with a database of its own.
func (s *scene) undone() {
	s.t.Helper()
	if code := s.tick(); code != 0 {
		s.t.Errorf("the next tick ends with %d", code)
	}
	s.serves("1.0.0")
	s.grows(s.saved("1.0.0").Last)
	s.whole("the database", s.live(), 1)
	s.tidy()
}

func TestAVersionThatWasStartedBeforeItWasSwitchedToIsUndoneWithItsDatabase(t *testing.T) {
	t.Run("by a reload", func(t *testing.T) {
		s := early(t, 2)
		s.undone()
		s.sameRows("1.0.0", s.saved("1.0.0").Last)
	})
	t.Run("by a restart", func(t *testing.T) {
		s := early(t, 2)
		s.Must("systemctl", "restart", "teleport")
		s.serving("1.1.0")
		s.undone()
		s.sameRows("1.0.0", s.saved("1.0.0").Last)
	})
	t.Run("by a restart, and is down again", func(t *testing.T) {
		s := early(t, 2)
		s.Must("systemctl", "kill", "--kill-whom=all", "-s", "KILL", "teleport")
		s.Must("systemctl", "stop", "teleport")
		s.undone()
	})
	t.Run("before a reboot", func(t *testing.T) {
		s := early(t, 2)
		if err := s.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.recoveredFirst()
		host.Wait(t, patience, func() error { return s.executes(store + "/1.0.0/bin/teleport") })
		if got := s.phase(); got != "restored" {
			t.Errorf("after the boot the journal says %q", got)
		}
		s.undone()
	})
	t.Run("before a power cut, and the database cannot be read at once", func(t *testing.T) {
		s := early(t, 2)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(liveFile + "-shm"); err != nil {
			t.Fatal(err)
		}
		if err := s.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.phase(); got != "rolling_back" {
			t.Errorf("after the boot the journal says %q; want the rest left to the next run", got)
		}
		s.undone()
	})
	t.Run("and left the database as it was, but for its rows", func(t *testing.T) {
		s := early(t, 1)
		s.grows(s.saved("1.0.0").Last + 20)
		s.undone()
		if live := s.live(); live.ByVersion["1.1.0"] == 0 {
			t.Errorf("the database holds %v; nothing was wrong with the rows that 1.1.0 wrote", live)
		}
	})
}

// serving waits until the agent that answers is of a version, whatever the host's
// files say.
func (s *scene) serving(v string) {
	s.t.Helper()
	host.Wait(s.t, patience, func() error { return s.executes(store + "/" + v + "/bin/teleport") })
}

// Without room for the journal the links go back all the same: from the first of
// them on, who restarts the agent starts the new version.
func TestADiskThatIsFullRightAfterTheLinksDoesNotKeepThem(t *testing.T) {
	s := newScene(t)
	s.small(dataDir, "300m", 4000)
	s.sound("1.0.0", "1.1.0")
	s.writes("delete", 0)
	s.running("1.0.0")
	before := s.seen()
	// Time to fill the disk, between the links and the next write of the journal.
	if err := s.WriteFile("/etc/systemd/system-generators/slow", []byte("#!/bin/sh\nexec sleep 4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	host.Wait(t, patience, func() error {
		if got, want := s.Link(linkDir+"/teleport"), store+"/1.1.0/bin/teleport"; got != want {
			return fmt.Errorf("the link leads to %s", got)
		}
		return nil
	})
	s.leave(dataDir, 0)
	s.ends(update, 4)
	s.linkedFiles("1.0.0")
	if got := s.phase(); got != "begun" {
		t.Errorf("the journal says %q; the test wants that it could not be written", got)
	}
	s.Must("rm", dataDir+"/ballast", "/etc/systemd/system-generators/slow")
	s.set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.serves("1.0.0")
	if got := before.became(s.seen()); got != inPeace {
		t.Errorf("the agent was %s", got)
	}
}
