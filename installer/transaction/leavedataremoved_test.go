package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// Commands of the unit's, or systemd, remove the folder of the database whenever the agent ends: nothing is left to be restored. An uninstall ends, or
// is called off, as it is without data.
func TestAnUninstallOfAnAgentWhoseDataGoWithTheStop(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, schemas := range [][2]int{{1, 1}, {2, 1}, {1, 2}} {
			for _, f := range []fate{holds, diesFirst, dies, diesLate} {
				if f == dies && !again {
					continue // the model's agent needs the folder between its two lives
				}
				name := fmt.Sprintf("schema %d/the agent of before %s with schema %d/another folder is there=%v", schemas[0], f, schemas[1], again)
				leaves := func(t *testing.T, lose func(ties *systemd.Ties, dir string)) {
					m := brokenWith(t, schemas[0], behaviour{schema: schemas[1], fate: f})
					m.creates = true
					lose(&m.ties, filepath.Dir(m.db))
					m.removesData(again)
					err, _ := m.leave(state.Uninstall{})
					if f == holds && err != nil || f != holds && !failure.Is[*failure.RefusedError](err) {
						t.Errorf("it ends with %v", err)
					}
					m.dropHooks()
					if f != holds {
						must(t, os.RemoveAll(m.Host.Paths.KeptBackups())) // who knows why the data are gone
						if err := m.calledOff(); err != nil {
							t.Error(err)
						}
						return
					}
					if m.main == nil || m.main.version != "1.0.0" || host.Exists(m.Host.Paths.Versions()) {
						t.Errorf("the agent is %+v", m.main)
					}
				}
				t.Run("commands/"+name, func(t *testing.T) { leaves(t, func(ties *systemd.Ties, _ string) { ties.Commands = true }) })
				if again && schemas[0] == 1 { // systemd makes it again; the model keeps its data between the two halves of a restart
					t.Run("RuntimeDirectory=/"+name, func(t *testing.T) { leaves(t, func(ties *systemd.Ties, dir string) { ties.Runtime = []string{dir} }) })
				}
			}
		}
	}
}
