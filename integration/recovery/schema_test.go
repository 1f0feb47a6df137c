//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// restartedMidway is a host whose agent somebody restarted in the middle of a transaction, by
// links that were the new version's already; the updater was killed before it
// could note that they are.
func restartedMidway(t *testing.T, schema int) *scene {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: schema})
	s.Writes("wal", 50)
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.EditJournal(func(j map[string]any) {
		j["phase"] = "begun"
		j["reached"] = "stop"
	})
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	return s
}

// undone asserts that the next run brings 1.0.0 back with a database of its own.
func (s *scene) undone() {
	s.T.Helper()
	if code := s.Tick(); code != 0 {
		s.T.Errorf("the next tick ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Grows(s.Saved("1.0.0").Last)
	s.Whole("the database", s.Live(), 1)
	s.Tidy()
}

func TestAVersionThatWasStartedBeforeItWasSwitchedToIsUndoneWithItsDatabase(t *testing.T) {
	t.Parallel()
	t.Run("by a reload", func(t *testing.T) {
		s := restartedMidway(t, 2)
		s.undone()
		s.SameRows("1.0.0", s.Saved("1.0.0").Last)
	})
	t.Run("by a restart", func(t *testing.T) {
		s := restartedMidway(t, 2)
		s.Must("systemctl", "restart", "teleport")
		s.serving("1.1.0")
		s.undone()
		s.SameRows("1.0.0", s.Saved("1.0.0").Last)
	})
	t.Run("by a restart, and is down again", func(t *testing.T) {
		s := restartedMidway(t, 2)
		s.KillsMain("teleport")
		s.Must("systemctl", "stop", "teleport")
		s.undone()
	})
	t.Run("before a reboot", func(t *testing.T) {
		s := restartedMidway(t, 2)
		if err := s.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.recoveredFirst()
		host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
		if got := s.Phase(); got != "restored" {
			t.Errorf("after the boot the journal says %q", got)
		}
		s.undone()
	})
	t.Run("before a power cut, and the database cannot be read at once", func(t *testing.T) {
		s := restartedMidway(t, 2)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(scenes.LiveFile + "-shm"); err != nil {
			t.Fatal(err)
		}
		if err := s.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Phase(); got != "rolling_back" {
			t.Errorf("after the boot the journal says %q; want the rest left to the next run", got)
		}
		s.undone()
	})
	for name, dropIn := range map[string]string{
		"and is just being set up": "StandardInput=file:/run/setup",
		"and is about to start":    "ExecStartPre=/bin/sh -c ': </run/setup'",
	} {
		t.Run(name, func(t *testing.T) { beginsAtTheRun(t, dropIn) })
	}
	t.Run("and left the database as it was, but for its rows", func(t *testing.T) {
		s := restartedMidway(t, 1)
		s.Grows(s.Saved("1.0.0").Last + 20)
		s.undone()
		if live := s.Live(); live.ByVersion["1.1.0"] == 0 {
			t.Errorf("the database holds %v; nothing was wrong with the rows that 1.1.0 wrote", live)
		}
	})
}

// beginsAtTheRun has the agent start, by a link that is the new version's, while a run looks at it: nobody can tell as yet
// which version it will be.
func beginsAtTheRun(t *testing.T, dropIn string) {
	s := restartedMidway(t, 2)
	s.Must("systemctl", "stop", "teleport")
	s.Must("mkfifo", "/run/setup")
	s.Write("/etc/systemd/system/teleport.service.d/setup.conf", "[Service]\n"+dropIn+"\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", "--no-block", "teleport")
	run := s.Background(host.Command{Args: []string{updater, "update"}})
	// Who opens it waits until the link leads back.
	s.Must("systemd-run", "sh", "-c", "until readlink "+linkDir+"/teleport | grep -q 1.0.0; do :; done; exec 3<>/run/setup; sleep infinity")
	s.Ends(run, 0)
	if log := s.Log("teleport.service"); strings.Contains(log, "migrated by a newer version") {
		t.Errorf("1.0.0 was started on the database of 1.1.0:\n%s", log)
	}
	s.undone()
}

// serving waits until the agent that answers is of a version, whatever the host's
// files say.
func (s *scene) serving(v string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error { return s.Executes(programs + "/" + v + "/bin/teleport") })
}

// Without room for the journal the links go back all the same: from the first of
// them on, who restarts the agent starts the new version.
func TestADiskThatIsFullRightAfterTheLinksDoesNotKeepThem(t *testing.T) {
	s := newScene(t)
	s.Small(scenes.AgentData, "300m", 4000)
	s.Sound("1.0.0", "1.1.0")
	s.Writes("delete", 0)
	s.RunsOn("1.0.0")
	before := s.Seen()
	// Time to fill the disk, between the links and the next write of the journal.
	if err := s.WriteFile("/etc/systemd/system-generators/slow", []byte("#!/bin/sh\nexec sleep 4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	host.Wait(t, patience, func() error {
		if got, want := s.Link(linkDir+"/teleport"), programs+"/1.1.0/bin/teleport"; got != want {
			return fmt.Errorf("the link leads to %s", got)
		}
		return nil
	})
	s.Leave(scenes.AgentData, 0)
	s.Ends(update, 1)
	s.LinkedFiles("1.0.0")
	s.Closed()
	s.Must("rm", scenes.AgentData+"/ballast", "/etc/systemd/system-generators/slow")
	s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS})
	if code := s.Tick(); code != 0 {
		t.Errorf("the next tick ends with %d", code)
	}
	s.Serves("1.0.0")
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
}
