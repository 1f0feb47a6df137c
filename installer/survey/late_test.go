package survey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who runs a container mounts its volumes before systemd begins. What systemd mounts there is as late as on any other host.
func TestAVolumeOfAContainerIsThereAtBoot(t *testing.T) {
	for name, tc := range map[string]struct {
		mount string            // empty: ROOT/local
		fstab string            // ROOT is the folder of all
		units map[string]string // contents by their names; UNIT is that of the mount
		late  bool
	}{
		"a volume":                      {},
		"others in fstab":               {fstab: "# /dev/x ROOT/local ext4 defaults 0 0\nROOT/local ROOT/other none bind 0 0\n\nUUID=1 none swap\n", late: false},
		"in fstab":                      {fstab: "# comment\n/persist\tROOT/local/ none bind 0 0\n", late: true},
		"in fstab, mounted by hand":     {fstab: "/persist ROOT/local none bind,noauto 0 0\n", late: true},
		"in fstab, by a link":           {fstab: "/persist ROOT/link none bind 0 0\n", late: true},
		"in fstab, with a space":        {mount: "a b", fstab: "/persist ROOT/a\\040b none bind 0 0\n", late: true},
		"with a unit":                   {units: map[string]string{"etc/UNIT": "[Mount]\n"}, late: true},
		"with a unit of a package":      {units: map[string]string{"usr/UNIT": "[Mount]\n"}, late: true},
		"with a unit of another folder": {units: map[string]string{"etc/opt.mount": "[Mount]\n"}},
		"with a unit that is masked":    {units: map[string]string{"etc/UNIT": "", "usr/UNIT": "[Mount]\n"}},
		"with a unit that is empty":     {units: map[string]string{"etc/UNIT": ""}},
	} {
		for _, contained := range []bool{true, false} {
			root := t.TempDir()
			for _, dir := range []string{"local", "a b", "etc", "usr", "run"} {
				check(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			}
			check(t, os.Symlink("local", filepath.Join(root, "link")))
			mount := filepath.Join(root, "local")
			if tc.mount != "" {
				mount = filepath.Join(root, tc.mount)
			}
			boot := Boot{Containers: []string{filepath.Join(root, "run/none"), filepath.Join(root, "run/container")}, Fstab: filepath.Join(root, "etc/fstab"),
				UnitDirs: []string{filepath.Join(root, "etc"), filepath.Join(root, "none"), filepath.Join(root, "usr")}}
			if contained {
				check(t, os.WriteFile(boot.Containers[1], []byte("podman"), 0o644))
			}
			if tc.fstab != "" {
				check(t, os.WriteFile(boot.Fstab, []byte(strings.ReplaceAll(tc.fstab, "ROOT", root)), 0o644))
			}
			unit := strings.ReplaceAll(strings.Trim(root, "/"), "/", "-") + "-local.mount" // the names of the test have no other special characters
			for name, content := range tc.units {
				check(t, os.WriteFile(filepath.Join(root, strings.Replace(name, "UNIT", unit, 1)), []byte(content), 0o644))
			}
			got, err := LateMount(func(string) (string, error) { return mount, nil }, boot, mount+"/lib/systemd/system")
			if want := tc.late || !contained; err != nil || (got == mount) != want || !want && got != "" {
				t.Errorf("%s, in a container %t: %q, %v; want it late: %t", name, contained, got, err, want)
			}
		}
	}
}

// Cannot look is not "there at boot".
func TestAMountOfAContainerThatCannotBeLookedUpIsAnError(t *testing.T) {
	root := t.TempDir()
	boot := Boot{Containers: []string{root}, Fstab: root} // a folder cannot be read
	if got, err := LateMount(func(string) (string, error) { return "/usr/local", nil }, boot, "/usr/local/lib"); err == nil {
		t.Errorf("%q, and no error", got)
	}
}
