package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// failReads has every open of a file end with EAGAIN, by a lease on it, until the function that it returns is
// called. The file can be renamed, and written over.
func failReads(t *testing.T, path string) (readable func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	return func() { must(t, f.Close()) }
}

// A journal that cannot be read this time may tell of any step: a run that meets that ends with the errno, and
// touches nothing. The next run closes the transaction by it.
func TestAJournalThatIsNotReadThisTimeIsKept(t *testing.T) {
	for _, s := range scenes() {
		for _, boot := range []bool{false, true} {
			name := s.name + "/live"
			if boot {
				name = s.name + "/boot"
			}
			t.Run(name, func(t *testing.T) {
				m := s.make(t)
				before := m.files()
				readable := failReads(t, m.Host.Paths.Journal())
				err := m.Recover(t.Context(), boot)
				if len(m.calls) > 0 {
					t.Errorf("systemd was called: %q", m.calls)
				}
				readable()
				if !errors.Is(err, syscall.EAGAIN) {
					t.Errorf("the recovery ends with %v; want EAGAIN", err)
				}
				if after := m.files(); after != before {
					t.Errorf("something was changed: %s became %s", before, after)
				}
				if aside, _ := filepath.Glob(m.Host.Paths.Journal() + ".*"); aside != nil {
					t.Errorf("the journal is kept aside as %s", aside)
				}
				m.settles(outcome{}, err, false)
			})
		}
	}
}

// Where the folder of the journal cannot be looked into, nobody knows of no transaction.
func TestAJournalThatCannotBeLookedForIsNotAbsent(t *testing.T) {
	m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(diesLate)) }, Update, "stop", 1, true).make(t)
	versions := m.Host.Paths.Versions()
	must(t, os.Rename(versions, versions+".away"))
	must(t, os.Symlink(filepath.Base(versions), versions))
	if host.Absent(m.Host.Paths.Journal()) || host.Exists(m.Host.Paths.Journal()) {
		t.Error("a path that leads in a circle is there, or is not")
	}
	err := m.Recover(t.Context(), false)
	if err == nil {
		t.Error("the recovery ends well, as if there were no transaction")
	}
	must(t, os.Remove(versions))
	must(t, os.Rename(versions+".away", versions))
	m.settles(outcome{}, err, false)
}

// A history that is not read this time may have the outcome of a transaction without a journal: nothing is told
// by its backup in that run.
func TestATransactionIsNotToldAgainWhileTheHistoryIsNotRead(t *testing.T) {
	for name, broken := range map[string]bool{"the journal is gone": false, "the journal is broken": true} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(diesLate)) }, Update, "stop", 1, true).make(t)
			must(t, os.Remove(m.Host.Paths.Journal()))
			if broken {
				must(t, os.WriteFile(m.Host.Paths.Journal(), []byte("{[ broken"), 0o600))
			}
			history := state.History{}
			must(t, history.Add(state.Ended{Time: noon, To: m.to, Result: state.RolledBack}, m.Host.Paths.History()))
			before := m.files()
			readable := failReads(t, m.Host.Paths.History())
			err := m.recoverLive(t.Context())
			readable()
			if !errors.Is(err, syscall.EAGAIN) {
				t.Errorf("the recovery ends with %v; want EAGAIN", err)
			}
			if after := m.files(); after != before {
				t.Errorf("something was changed: %s became %s", before, after)
			}
		})
	}
}
