package transaction

import (
	"testing"

	"teleport-update/installer/state"
)

func TestWhichNamesAreOfOneBoot(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"k/1", "k/1", true},
		{"k/1", "k/2", false}, // a soft reboot
		{"k/1", "l/1", false},
		{"k", "k", true},
		{"k", "l", false},
		{"k", "k/1", true}, // of an older program, or systemd did not answer
		{"k", "l/1", false},
		{"", "", true},
	} {
		if got := sameBoot(tc.a, tc.b); got != tc.same {
			t.Errorf("%q and %q: %v", tc.a, tc.b, got)
		}
		if got := sameBoot(tc.b, tc.a); got != tc.same {
			t.Errorf("%q and %q: %v", tc.b, tc.a, got)
		}
	}
}

// cutOffBeforeASoftReboot is a host on which a transaction was killed in mid-watch, and whose next
// boots keep the kernel.
func cutOffBeforeASoftReboot(t *testing.T, make func(t *testing.T) *model) *model {
	m := cutOff("", func(t *testing.T) *model {
		m := make(t)
		m.soft = true
		return m
	}, Update, "watch", 1, false).make(t)
	return m
}

// A soft reboot is a boot: what was started by hand stays down.
func TestAnAgentThatWasStartedByHandStaysDownAfterASoftReboot(t *testing.T) {
	for _, soft := range []bool{false, true} {
		m := cutOffBeforeASoftReboot(t, func(t *testing.T) *model {
			m := upgrade(t, twoHolds)
			m.enabled = false
			return m
		})
		m.soft = soft
		if err, _ := m.reboot(); err != nil {
			t.Error(err)
		}
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		if m.main != nil {
			t.Errorf("soft %v: the agent was started", soft)
		}
	}
}

// A version that was not proven is not watched again, although the kernel is the same.
func TestAVersionThatRunsAfterASoftRebootIsUndone(t *testing.T) {
	m := cutOffBeforeASoftReboot(t, func(t *testing.T) *model { return upgrade(t, twoHolds) })
	m.ends()
	m.boots++ // no recovery ran
	m.startUnit()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// File systems are mounted anew, and some have another device number then.
func TestTheFolderOfTheDatabaseMayHaveAnotherNumberAfterASoftReboot(t *testing.T) {
	m := cutOffBeforeASoftReboot(t, func(t *testing.T) *model { return upgrade(t, two(neverReady)) })
	j, err := state.LoadJournal(m.Host.Paths.Journal())
	must(t, err)
	j.Database.Folder.Device++
	j.Database.Folder.FileSystem = ""
	must(t, j.Save(m.Host.Paths.Journal()))
	if err, _ := m.reboot(); err != nil {
		t.Error(err)
	}
	if v, _ := m.program(); v != "1.0.0" || schemaOf(t, m.db) != 1 {
		t.Errorf("after the soft reboot %s is linked, and the database has schema %d", v, schemaOf(t, m.db))
	}
	for range 2 { // the first notes the boot of today, which the folder's number is not of
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
	}
	m.endsOn("1.0.0")
}
