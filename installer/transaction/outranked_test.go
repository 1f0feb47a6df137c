package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
)

// Somebody put a unit or a mask where it ranks above the agent's unit, and had systemd read nothing. A change of version that stopped
// the agent, and had systemd read its files then, would start what was put there, and so would its undoing.
func TestAUnitThatRanksAboveIsReadBeforeTheAgentIsStopped(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a mask": func(path string) error { return os.Symlink(os.DevNull, path) },
		"a unit that does not start": func(path string) error {
			return os.WriteFile(path, []byte("[Service]\nExecStart=/usr/bin/teleport start\n"), 0o644)
		},
	} {
		for kind, make := range map[Kind]func(*testing.T) *model{
			Downgrade: func(t *testing.T) *model { return downgrade(t, holds) },
			Update:    func(t *testing.T) *model { return upgrade(t, twoHolds) },
		} {
			t.Run(fmt.Sprintf("%s, %s", name, kind), func(t *testing.T) {
				m := make(t)
				above := filepath.Join(m.Host.Paths.UnitDir+".control", m.Host.Paths.AgentUnit())
				must(t, errors.Join(os.MkdirAll(filepath.Dir(above), 0o755), put(above)))
				m.before = func(call string) error {
					if call == "daemon-reload" {
						m.masked = host.Exists(above) // a start that is refused stands for that of another unit, too
					}
					return nil
				}
				agent := m.main
				if err := m.do(kind); err == nil {
					t.Error("the change ends well")
				} else {
					t.Log(err)
				}
				if m.main == nil || m.main != agent {
					t.Errorf("the agent is %+v, and was %+v", m.main, agent)
				}
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				if err := m.sound(); err != nil {
					t.Error(err)
				}
				if host.Exists(m.Host.Paths.Journal()) {
					t.Error("a transaction is open")
				}
				// Without that file the change ends well.
				must(t, os.Remove(above))
				must(t, m.DaemonReload(t.Context()))
				if err := m.do(kind); err != nil {
					t.Error(err)
				}
				m.endsOn(m.to.Version)
			})
		}
	}
}
