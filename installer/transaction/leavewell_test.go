package transaction

import (
	"os"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// An agent of before that is put on a host whose database is away for the moment, or which is restarted although it cannot start,
// is none: an uninstall is refused, and says how the agent of today stays.
func TestAnUninstallIsRefusedIfTheAgentOfBeforeWouldNotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		schema int // of the version that is left
		spoil  func(m *model)
		says   string
	}{
		"stopped, and its database is not mounted": {2, func(m *model) {
			m.stopUnit()
			must(m.t, os.Rename(m.db, m.db+".away"))
		}, "is missing, and version 1.1.0 had one"},
		"running, and its database was renamed": {2, func(m *model) { must(m.t, os.Rename(m.db, m.db+".away")) }, "its database is open as"},
		"running, and its unit is masked":       {1, func(m *model) { m.masked = true }, "masked"},
	} {
		t.Run(name, func(t *testing.T) {
			m := firstEnable(t, holds)
			m.versions["1.1.0"] = behaviour{schema: tc.schema, fate: holds}
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) })
			must(t, err)
			m.creates = true
			tc.spoil(m)
			runs := m.main
			m.calls = nil
			err, _ = m.leave(state.Uninstall{})
			if !failure.Is[*failure.RefusedError](err) {
				t.Fatalf("it ends with %v; want it refused", err)
			}
			for _, says := range []string{tc.says, "--keep-agent"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
			if m.main != runs || host.Exists(m.Host.Paths.Journal()) || !m.committedOn(m.to) {
				t.Errorf("something was changed: %q", m.calls)
			}
		})
	}
}
