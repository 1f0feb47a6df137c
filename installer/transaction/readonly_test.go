package transaction

import (
	"errors"
	"os"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
)

// A folder that cannot be written is found before the first change: nothing is open that
// each run would try to undo.
func TestAFolderThatIsReadOnlyIsFoundBeforeTheFirstChange(t *testing.T) {
	for name, dir := range map[string]func(*model) string{"links": (*model).linkDir, "units": (*model).unitDir} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds)
			readOnly(dir)(t, m)
			agent, unit := m.main, m.unitFile()
			err := m.do(Update)
			if _, refused := errors.AsType[*failure.RefusedError](err); !refused || !strings.Contains(err.Error(), "write in "+dir(m)) || !strings.Contains(err.Error(), "the agent stays on version 1.0.0") {
				t.Errorf("it ends with %v", err)
			}
			if host.Exists(m.Host.Paths.Journal()) || m.main != agent || m.unitFile() != unit {
				t.Error("something was changed")
			}
			m.endsOn("1.0.0")
			if err, _ := m.tick(); err != nil {
				t.Errorf("a tick ends with %v", err)
			}
			writable(dir)(t, m)
			must(t, m.do(Update))
			m.endsOn("1.1.0")
		})
	}
}

// What is in its place already is not written: two versions with one unit need no folder
// of units that can be written, neither forward nor back.
func TestAUnitThatStaysIsNotWritten(t *testing.T) {
	for f, ends := range map[fate]string{holds: "1.1.0", diesLate: "1.0.0"} {
		m := upgrade(t, two(f))
		same := "[Service]\n# 1.0.0\n# 1.1.0\n"
		for _, path := range []string{m.Host.Paths.Unit(), m.Host.Store.Dir + "/1.0.0/etc/systemd/teleport.service", m.Host.Store.Dir + "/1.1.0/etc/systemd/teleport.service"} {
			must(t, os.WriteFile(path, []byte(same), 0o644))
		}
		must(t, os.Chmod(m.Host.Paths.Unit(), 0o644))
		m.read()
		readOnly((*model).unitDir)(t, m)
		if err := m.do(Update); (err == nil) != (f == holds) {
			t.Errorf("it ends with %v", err)
		}
		m.endsOn(ends)
	}
}
