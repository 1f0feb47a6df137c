//go:build hosts

package order

import (
	"errors"
	"os"
	"path/filepath"
	"teleport-update/installer/state"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestOrderOfUndoing(t *testing.T) {
	undone := []string{"journal removed", "remove 2.0.0"}
	for event, want := range map[string][]string{
		"journal: begun":               {"journal: rolling_back", "journal: restored", "configuration"},
		"journal: begun, backup taken": {"journal: rolling_back, backup taken", "journal: restored, backup taken", "configuration", "remove rollback"},
		"link tsh": {"journal: rolling_back, backup taken", "link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh",
			"journal: restored, backup taken", "configuration", "remove rollback"},
		"unit": {"journal: rolling_back, backup taken", "unit", "link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport",
			"journal: restored, backup taken", "configuration", "remove rollback"},
		"journal: switched, backup taken": {"journal: rolling_back, backup taken", "unit",
			"link fdpass-teleport goes", "link tbot goes", "link tctl", "link tsh", "link teleport",
			"the database is written", "journal: restored, backup taken", "configuration", "remove rollback"},
		"journal: proven, backup taken": nil,
	} {
		t.Run(event, func(t *testing.T) {
			s := stage(t, "")
			s.enabled("1.1.0", 2)
			s.wants("2.0.0")
			s.cutAt(event, "update")
			if want == nil {
				s.does(args("recover"), "put original/before.json", "configuration", "remove rollback", "journal removed")
			} else {
				s.does(args("recover"), then(want, undone...)...)
			}
		})
	}
}

// An interruption is told and counted before the journal goes, and once.
func TestOrderOfUndoingThatIsItselfCutOff(t *testing.T) {
	s := stage(t, "")
	s.wants("1.1.0")
	s.must("enable")
	s.wants("2.0.0")
	s.cutAt("journal: switched", "update")
	for range 3 {
		s.cutAt("configuration", "recover")
		data, err := os.ReadFile(s.h.config())
		var c state.Config
		if err := errors.Join(err, yaml.Unmarshal(data, &c)); err != nil {
			t.Fatal(err)
		}
		if n := c.Status.Interrupted; n == nil || n.Count != 1 || c.Status.LastUpdate.Result != state.Interrupt {
			t.Fatalf("counted: %+v, last: %+v; want one interruption", n, c.Status.LastUpdate)
		}
	}
	s.does(args("recover"), "configuration", "journal removed", "remove 2.0.0")
}

func TestOrderOfUndoingADowngrade(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	s.wants("1.1.0")
	s.must("update")
	s.agent(2)
	s.cutAt("the database is written", "rollback")
	s.does(args("recover"),
		"journal: rolling_back, backup taken", "unit", "link tbot goes", "link tctl", "link tsh", "link teleport",
		"the database is written", "journal: restored, backup taken", "configuration", "remove rollback", "journal removed")
}

func TestOrderOfUndoingTheFirstEnable(t *testing.T) {
	s := stage(t, "1.0.0")
	s.agent(1)
	s.wants("1.1.0")
	s.cutAt("journal: switched, backup taken", "enable")
	s.does(args("recover"),
		"journal: rolling_back, backup taken", "unit", "cluster report goes", "link tctl goes", "link tsh", "link teleport",
		"the database is written", "journal: restored, backup taken",
		"updater's units go", "remove the updater's copy", "remove 1.1.0", "remove original", "configuration", "remove rollback", "journal removed")
}

// The unit was a link.
func TestOrderOfUndoingTheFirstEnableOverALink(t *testing.T) {
	s := stage(t, "1.0.0")
	elsewhere := filepath.Join(s.h.scratch(), "teleport.service")
	if err := errors.Join(os.Rename(s.h.unit(), elsewhere), os.Symlink(elsewhere, s.h.unit())); err != nil {
		t.Fatal(err)
	}
	s.wants("1.1.0")
	s.cutAt("journal: switched", "enable")
	s.does(args("recover"),
		"journal: rolling_back", "unit", "cluster report goes", "link tctl goes", "link tsh", "link teleport", "journal: restored",
		"updater's units go", "remove the updater's copy", "remove 1.1.0", "remove original", "configuration", "journal removed")
}

// A package's removal takes links of ours along, and disables the agent.
func TestOrderOfFinishingWhatWasTakenAway(t *testing.T) {
	s := stage(t, "")
	s.enabled("1.0.0", 1)
	wants := filepath.Join(s.h.units(), "multi-user.target.wants", filepath.Base(s.h.unit()))
	if err := os.Symlink(s.h.unit(), wants); err != nil {
		t.Fatal(err)
	}
	s.wants("1.1.0")
	s.cutAt("journal: proven, backup taken", "update")
	s.remove(filepath.Join(s.h.links(), "tsh"), wants)
	s.does(args("recover"), "put original/before.json", "journal: proven, backup taken", "link tsh", "agent enabled", "configuration", "remove rollback", "journal removed")
}

// The updater of a version is linked when all else of it is in its place.
func TestOrderOfFinishingWithTheUpdatersOwnLink(t *testing.T) {
	s := stage(t, "")
	s.brings("1.0.0")
	s.cutAt("journal: proven", "enable")
	s.remove(filepath.Join(s.h.links(), "tsh"))
	s.does(args("recover"), "put original/before.json", "journal: proven", "link tsh", "configuration", "link teleport-update", "journal removed")
}

func TestOrderOfAJournalThatCannotBeRead(t *testing.T) {
	s := stage(t, "")
	s.wants("1.0.0")
	s.must("enable")
	if err := os.WriteFile(s.h.journal(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ends(4, "it is kept aside", args("recover"), "configuration", "journal kept aside")
}
