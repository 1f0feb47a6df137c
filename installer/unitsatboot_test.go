package installer

import (
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
)

// Units on a file system of their own are not there when systemd reads its units at boot: enable
// says so, and which folder to name. That one is in force for every later command.
func TestEnableRefusesAFolderOfUnitsThatIsNotThereAtBoot(t *testing.T) {
	i := testInstaller(t)
	ownProc(t, i)
	must(t, i.checkUnitsAtBoot())
	writeFile(t, i.Machine.Host.Paths.UnitDir+"/teleport.service", "")
	mountUnits(t, i)
	err := i.checkUnitsAtBoot()
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "--unit-dir "+layout.ConfigDir) {
		t.Errorf("it ends with %v", err)
	}
	c := state.EmptyConfig()
	c.Spec.UnitDir = layout.ConfigDir
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	usual := i.Machine.Host.Paths
	usual.UnitDir = layout.UnitDir
	if got := usual.InPlace("").UnitDir; got != layout.ConfigDir {
		t.Errorf("a later command has the units in %s", got)
	}
	if got := i.Machine.Host.Paths.InPlace("").UnitDir; got != i.Machine.Host.Paths.UnitDir {
		t.Errorf("what a command names is not in force: %s", got)
	}
}
