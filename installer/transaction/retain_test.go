package transaction

import (
	"errors"
	"os"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
)

func (m *model) onDisk(v string) bool {
	_, ok, err := m.Host.Store.Lookup(version.Release{Version: v, Edition: version.OSS})
	must(m.t, err)
	return ok
}

func TestAVersionThatWasRolledBackStaysUntilAnotherOneIsProven(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": two(dies), "1.2.0": twoHolds})
	if err := m.do(Update); err == nil || !m.onDisk("1.1.0") || m.onDisk("1.2.0") {
		t.Errorf("after %v: 1.1.0 is on disk: %v, 1.2.0: %v", err, m.onDisk("1.1.0"), m.onDisk("1.2.0"))
	}
	m.endsOn("1.0.0")
	m.to.Version = "1.2.0"
	must(t, m.do(Update))
	m.endsOn("1.2.0")
	if m.onDisk("1.1.0") {
		t.Error("it stays for good")
	}
}

// A database may grow between the download and the backup.
func TestAVersionThatFailedGivesWayToABackup(t *testing.T) {
	m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds, "1.2.0": twoHolds})
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	fail := func(v string) {
		tree, _, err := m.Host.Store.Lookup(version.Release{Version: v, Edition: version.OSS})
		must(t, err)
		c.Status.RecordFailure(state.Tree{Release: tree.Release, SHA256: tree.SHA256}, m.Now(), "it died")
		must(t, c.Save(m.Host.Paths.Config()))
	}
	info, err := os.Stat(m.db)
	must(t, err)
	must(t, os.Truncate(m.db, 1<<42))
	now := func() error {
		req := m.request(Update)
		req.Now = true
		return m.transact(t.Context(), req)
	}
	attempt := func() {
		t.Helper()
		err := now()
		if _, full := errors.AsType[*space.Error](err); !full {
			t.Errorf("got %v; want that there is no space", err)
		}
	}
	fail("1.1.0") // the one that is to be tried again
	attempt()
	if !m.onDisk("1.1.0") {
		t.Error("the target itself is removed")
	}
	m.release("1.2.0")
	fail("1.2.0")
	attempt()
	if m.onDisk("1.2.0") || !m.onDisk("1.1.0") {
		t.Errorf("1.2.0 is on disk: %v, 1.1.0: %v", m.onDisk("1.2.0"), m.onDisk("1.1.0"))
	}
	must(t, os.Truncate(m.db, info.Size()))
	must(t, now())
	m.look()
	m.endsOn("1.1.0")
}
