package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
)

// writesUnit has somebody write the agent's unit, at a time, with some arguments of the agent's.
func (m *model) writesUnit(arguments string, at time.Time) {
	m.t.Helper()
	unit := m.Host.Paths.Unit()
	writeFile(m.t, unit, "[Service]\nExecStart="+m.Host.Paths.LinkDir+"/teleport start"+arguments+"\n")
	must(m.t, os.Chtimes(unit, at, at))
	m.readUnits()
}

// A unit that leads the agent elsewhere, and by which it was started, stays in a repair and keeps every change away: the unit of a
// version would lead its next start to another configuration or database.
func TestAUnitThatLeadsTheAgentElsewhereStays(t *testing.T) {
	other := filepath.Join(t.TempDir(), "teleport.yaml")
	writeFile(t, other, "teleport: {nodename: other}\n")
	elsewhere := " --config=" + other
	for name, tc := range map[string]struct {
		arguments string
		after     time.Duration // its start, that the unit is written
		down      bool
		stays     bool
	}{
		"another configuration":            {arguments: elsewhere, after: -time.Hour, stays: true},
		"another folder":                   {arguments: " --data-dir=/srv/teleport", after: -time.Hour, stays: true},
		"the same places":                  {arguments: " --debug", after: -time.Hour},
		"written since, and not restarted": {arguments: elsewhere, after: time.Hour},
		"no agent runs by it":              {arguments: elsewhere, after: -time.Hour, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, two(holds))
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			tree, _, err := m.Active(c)
			must(t, err)
			m.writesUnit(tc.arguments, m.Now().Add(tc.after))
			must(t, m.restartUnit())
			m.since = m.Now()
			if tc.down {
				m.ends()
			}
			err = CheckLed(t.Context(), m.Machine, tree, m)
			if failure.Is[*failure.RefusedError](err) != tc.stays || (err != nil) != tc.stays {
				t.Fatalf("%v; want a refusal: %v", err, tc.stays)
			}
			if !tc.stays {
				return
			}
			unit, err := host.ReadUnit(m.Host.Paths.Unit())
			must(t, err)
			before := m.main
			err = m.do(Update)
			if names := strings.Contains(fmt.Sprint(err), "systemctl edit teleport.service"); err == nil || tc.arguments == elsewhere && !names {
				t.Errorf("a change ends with %v", err)
			}
			now, err := host.ReadUnit(m.Host.Paths.Unit())
			must(t, err)
			if !host.SameUnit(now, unit) || m.main != before || host.Exists(m.Host.Paths.Journal()) {
				t.Errorf("something was changed: %q", m.calls)
			}
			// What the advice does.
			writeFile(t, filepath.Join(m.Host.Paths.Unit()+".d", "override.conf"),
				"[Service]\nExecStart=\nExecStart="+m.Host.Paths.LinkDir+"/teleport start"+tc.arguments+"\n")
			if err := CheckLed(t.Context(), m.Machine, tree, m); err != nil {
				t.Errorf("with the command in a drop-in: %v", err)
			}
		})
	}
}
