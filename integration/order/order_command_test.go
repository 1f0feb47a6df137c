//go:build hosts

package order

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestOrderOfRepairing(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	s.remove(s.h.unit(), filepath.Join(s.h.links(), "tsh"), filepath.Join(s.h.units(), "teleport-update.timer"))
	s.does(args("update", "--now"), "link tsh", "unit", "updater's units")
}

// A damaged version was published anew meanwhile, with a program more, or less,
// in whose place somebody's file stood.
func TestOrderOfRepairingWithOtherPrograms(t *testing.T) {
	s := stage(t, "")
	r := Releases()[0]
	publish := func(extra string) {
		s.out.Shelves[r] = Shelf{Build: Build{Release: r, Runs: true, Extra: extra}}
		s.wants(r.Version)
	}
	damage := func() {
		if err := os.Truncate(filepath.Join(s.h.versions(), "1.0.0/bin/tsh"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.h.links(), "more"), []byte("somebody's"), 0o755); err != nil {
		t.Fatal(err)
	}
	publish("")
	s.must("enable")
	publish("more")
	damage()
	s.does(args("update", "--now"), "publish 1.0.0", "put original/before.json", "put original/more-*", "link more")
	publish("")
	damage()
	s.does(args("update", "--now"), "publish 1.0.0", "link more", "drop original/more-*", "put original/before.json")
}

func TestOrderOfUninstall(t *testing.T) {
	ours := []string{"cluster report goes", "updater's units go", "remove the updater's copy"}
	for _, existing := range []string{"", "1.0.0"} {
		t.Run("over "+existing, func(t *testing.T) {
			s := stage(t, existing)
			s.wants("1.1.0")
			s.must("enable")
			s.does(args("uninstall"), slices.Concat([]string{"configuration", "link tctl", "link tsh", "link teleport"}, ours,
				[]string{"remove the store"})...)
		})
	}
	t.Run("with the agent", func(t *testing.T) {
		s := stage(t, "")
		s.wants("1.1.0")
		s.must("enable")
		s.does(args("uninstall", "--with-agent"), slices.Concat([]string{"configuration"}, ours,
			[]string{"unit goes", "link tctl goes", "link teleport goes", "link tsh goes", "remove the store"})...)
	})
}

// Once the links are plain files, a run that was cut off goes on without the version.
func TestOrderOfAnUninstallThatIsRunAgain(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	s.cutAt("link teleport", "uninstall")
	s.does(args("uninstall"), "cluster report goes", "updater's units go", "remove the updater's copy", "remove the store")
}

// Where updates.yaml was lost, no command knows which version to leave.
func TestOrderOfUninstallAfterTheConfigurationWasLost(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	s.remove(s.h.config(), s.h.unit(), filepath.Join(s.h.versions(), "original", "before.json"))
	s.ends(1, "names no active version", args("uninstall"))
	s.ends(1, "names no active version", args("uninstall", "--with-agent"))
	s.must("enable")
	s.does(args("uninstall"), "configuration", "link tctl", "link tsh", "link teleport", "cluster report goes", "updater's units go",
		"remove the updater's copy", "remove the store")
}

// Where updates.yaml was lost, an enable that comes to nothing is not the first: the version before comes back.
func TestOrderOfAnEnableThatFailsAfterTheConfigurationWasLost(t *testing.T) {
	s := stage(t, "1.0.0")
	s.wants("1.1.0")
	s.must("enable")
	s.agent(1)
	inTheWay := filepath.Join(s.h.links(), "tbot")
	for _, err := range []error{os.Remove(s.h.config()), os.Mkdir(inTheWay, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.wants("2.0.0")
	s.ends(1, "tbot is a folder", args("enable"), "publish 2.0.0", "configuration")
	s.remove(s.h.config(), inTheWay)
	s.cutAt("journal: switched, backup taken", "enable")
	s.does(args("recover"), "journal: rolling_back, backup taken", "unit", "link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport",
		"the database is written", "journal: restored, backup taken", "configuration", "remove rollback", "journal removed", "remove 2.0.0")
}

func TestOrderOfTurningUpdatesOffAndOn(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	for _, command := range []string{"disable", "enable", "pin", "unpin"} {
		s.does(args(command), "configuration")
	}
}

func TestOrderOfADownloadThatFails(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	next := Releases()[2]
	s.out.Shelves[next] = Shelf{Missing: true}
	s.wants(next.Version)
	s.ends(1, "the agent stays on version 1.0.0", args("update"), "configuration")
}

// What is refused is told by status, with the reason of today, although the timer
// fails once only.
func TestOrderOfAnUpdateThatIsRefused(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.1.0", 2)
	s.wants("1.0.0")
	s.timer = true
	s.ends(1, "is refused", args("update"), "configuration")
	s.does(args("update"))
	if err := os.WriteFile(s.h.database(), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.does(args("update"), "configuration")
}
