package installer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/version"
)

// Units on a file system of their own are not there when systemd reads its units at boot: enable
// says so, and which folder to name. That one is in force for every later command.
func TestEnableRefusesAFolderOfUnitsThatIsNotThereAtBoot(t *testing.T) {
	i := testInstaller(t)
	ownProc(t, i)
	c := state.EmptyConfig()
	must(t, i.checkUnitsAtBoot(c))
	writeFile(t, i.Machine.Host.Paths.UnitDir+"/teleport.service", "")
	mountUnits(t, i)
	err := i.checkUnitsAtBoot(c)
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "--unit-dir "+layout.ConfigDir) {
		t.Errorf("it ends with %v", err)
	}
	c.Spec.ActiveVersion = "1.0.0"
	err = i.checkUnitsAtBoot(c)
	if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "`teleport-update uninstall`") {
		t.Errorf("with a version it ends with %v", err)
	}
	c = state.EmptyConfig()
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

// The first enable takes a folder that is there at boot, unless one is named. The units of a host with a version stay.
func TestEnableTakesAFolderOfUnitsThatIsThereAtBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		mount, units, active string
		failed               error
		boot                 survey.Boot
		want                 string
	}{
		"all on one file system":       {mount: "/", units: layout.UnitDir, want: layout.UnitDir},
		"/usr apart":                   {mount: "/usr", units: layout.UnitDir, want: layout.UnitDir},
		"/usr/local apart":             {mount: "/usr/local", units: layout.UnitDir, want: layout.ConfigDir},
		"/usr/local leads into /var":   {mount: "/var", units: layout.UnitDir, want: layout.ConfigDir},
		"a host with a version":        {mount: "/usr/local", units: layout.UnitDir, active: "1.0.0", want: layout.UnitDir},
		"a folder that somebody named": {mount: "/usr/local", units: "/srv/units", want: "/srv/units"},
		"a volume of a container's":    {mount: "/usr/local", units: layout.UnitDir, boot: survey.Boot{Containers: []string{"/proc/self"}}, want: layout.UnitDir},
		"mounts that cannot be read":   {failed: fs.ErrPermission, units: layout.UnitDir, want: layout.UnitDir},
	} {
		t.Run(name, func(t *testing.T) {
			p := state.Paths{DataDir: t.TempDir(), UnitDir: tc.units}
			c := state.EmptyConfig()
			c.Spec.ActiveVersion, c.Status.ActiveEdition = tc.active, version.OSS
			writeFile(t, p.Config(), "")
			must(t, c.Save(p.Config()))
			if got := UnitsAtBoot(p, func(string) (string, error) { return tc.mount, tc.failed }, tc.boot); got != tc.want {
				t.Errorf("units are in %s; want %s", got, tc.want)
			}
		})
	}
}

// The first enable decides on the folder of units. A later one that names another folder is refused.
func TestUnitsStayInTheFolderOfTheFirstEnable(t *testing.T) {
	i := testInstaller(t)
	path, folder := i.Machine.Host.Paths.Config(), t.TempDir()
	writeFile(t, filepath.Join(folder, "teleport.service"), "[Service]\n")
	link := filepath.Join(t.TempDir(), "units")
	must(t, os.Symlink(folder, link))
	for name, tc := range map[string]struct {
		active, recorded, named string
		refused                 bool
	}{
		"the same":                      {"1.0.0", folder, folder, false},
		"another name of it":            {"1.0.0", folder, link, false},
		"another one":                   {"1.0.0", folder, t.TempDir(), true},
		"the usual one":                 {"1.0.0", folder, layout.UnitDir, true},
		"a folder without the unit":     {"1.0.0", t.TempDir(), folder, false},
		"a host without a version":      {"", folder, t.TempDir(), false},
		"a host that was never enabled": {"", "", folder, false},
	} {
		c := state.EmptyConfig()
		c.Spec.UnitDir, c.Spec.ActiveVersion, c.Status.ActiveEdition = tc.recorded, tc.active, version.OSS
		writeFile(t, path, "")
		must(t, c.Save(path))
		i.Machine.Host.Paths.UnitDir = tc.named
		err := i.checkUnitsStay()
		if refused := failure.Is[*failure.RefusedError](err); refused != tc.refused || (err != nil) != tc.refused {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}
