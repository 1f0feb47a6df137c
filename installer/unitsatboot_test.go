package installer

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Units on a file system of their own are not there when systemd reads its units at boot: enable
// says so, and which folder to name. That one is in force for every later command.
func TestEnableRefusesAFolderOfUnitsThatIsNotThereAtBoot(t *testing.T) {
	i := testInstaller(t)
	ownProc(t, i)
	must(t, i.checkUnitsAtBoot(i.Machine.Host.Paths.UnitDir))
	writeFile(t, i.Machine.Host.Paths.UnitDir+"/teleport.service", "")
	mountUnits(t, i)
	err := i.checkUnitsAtBoot(i.Machine.Host.Paths.UnitDir)
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

// Enable takes a folder that is there at boot, with a version, too; who names a folder keeps it.
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
		"a host with a version":        {mount: "/usr/local", units: layout.UnitDir, active: "1.0.0", want: layout.ConfigDir},
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

// A move of units that was cut off before it was written down as made is written down by whoever takes the lock next.
func TestAMoveOfUnitsThatWasMadeIsWrittenDown(t *testing.T) {
	i := testInstaller(t)
	i.Machine.Connect = sightOf(i, func(*systemd.Unit, *string) {})
	path := i.Machine.Host.Paths.Config()
	c := state.EmptyConfig()
	c.Spec.UnitDir, c.Status.UnitsLeft = i.Machine.Host.Paths.UnitDir, t.TempDir()
	writeFile(t, path, "")
	must(t, c.Save(path))
	must(t, i.Machine.FinishMove(t.Context(), &c))
	if again, err := i.Machine.FreshConfig(); err != nil || again.Status.UnitsLeft != "" {
		t.Errorf("updates.yaml has units left in %q, %v", again.Status.UnitsLeft, err)
	}
}

// Units move into no folder in which somebody else's files have their names, a mask for example.
func TestUnitsDoNotMoveOverAnothersFiles(t *testing.T) {
	for name, place := range map[string]func(t *testing.T, dir string){
		"the agent's unit": func(t *testing.T, dir string) {
			writeFile(t, dir+"/teleport.service", "[Service]\nExecStart=/bin/other\n")
		},
		"the timer":      func(t *testing.T, dir string) { writeFile(t, dir+"/teleport-update.timer", "[Timer]\n") },
		"a masked timer": func(t *testing.T, dir string) { must(t, os.Symlink(os.DevNull, dir+"/teleport-update.timer")) },
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			to := t.TempDir()
			writeFile(t, i.Machine.Host.Paths.Unit(), "[Service]\nExecStart=/bin/teleport\n")
			must(t, i.Machine.Host.CheckMove(to))
			place(t, to)
			if err := i.Machine.Host.CheckMove(to); !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), to) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
