package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/golden"
	"teleport-update/internal/layout"
)

func TestOurUnitsKeepTheirForm(t *testing.T) {
	for dir, u := range map[string]Units{
		"usual": {Binary: "/usr/bin/teleport-update"},
		"moved": {Binary: "/opt/t/updater/teleport-update", DataDir: "/opt/t", LinkDir: "/opt/bin", UnitDir: "/opt/units", ConfigDir: "/opt/units"},
	} {
		files, err := u.Files()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			top, _, _ := strings.Cut(f.Name, "/")
			names = append(names, top)
			golden.File(t, filepath.Join("testdata", dir, f.Name), string(f.Content))
		}
		golden.Folder(t, filepath.Join("testdata", dir), names...)
	}
}

// Packages look for transactions by the name of their units, and an older updater removes
// what a newer one left of them.
func TestThePrefixOfTransientUnitsKeepsItsForm(t *testing.T) {
	if transientPrefix != "teleport-update-switch-" {
		t.Errorf("it is %q now", transientPrefix)
	}
	for _, script := range []string{"deb/prerm", "rpm/preun"} {
		text, err := os.ReadFile(filepath.Join("..", "packaging", "teleport-update", script))
		if err != nil || !strings.Contains(string(text), "'"+transientPrefix+"*.service'") {
			t.Errorf("%s does not look for %s*.service (%v)", script, transientPrefix, err)
		}
	}
}

func TestTheRescuerIsWhatTheUnitInUseRuns(t *testing.T) {
	unit := func(command string) string { return "[Service]\nExecStart=" + command + "\n" }
	for name, tc := range map[string]struct {
		packaged, above, own string
		want, fails          string
	}{
		"no unit yet":                      {want: "/copy"},
		"one of ours":                      {own: unit("/elsewhere recover"), want: "/copy"},
		"a package's":                      {packaged: unit("/usr/bin/teleport-update recover --boot"), want: "/usr/bin/teleport-update"},
		"an administrator's":               {packaged: unit("/usr/bin/teleport-update"), above: unit("-/opt/rescuer recover"), want: "/opt/rescuer"},
		"the last of several commands":     {packaged: unit("/bin/true\nExecStart=/opt/b x"), want: "/opt/b"},
		"a command that cannot be told":    {packaged: unit(`"/opt/a b/updater" recover`), fails: "not the plain path"},
		"a unit without a command":         {packaged: "[Unit]\n", fails: "not the plain path"},
		"a command in a folder of systemd": {packaged: unit("%h/updater recover"), fails: "not the plain path"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			u := Units{Binary: "/copy", ConfigDir: dir + "/etc", PackageDirs: []string{dir + "/package"}}
			for path, text := range map[string]string{dir + "/package": tc.packaged, dir + "/etc": tc.above} {
				if text != "" {
					writeFile(t, filepath.Join(path, (Units{}).Recovery()), text)
				}
			}
			if tc.own != "" {
				u.UnitDir = dir
				writeFile(t, filepath.Join(dir, (Units{}).Recovery()), tc.own)
			} else if _, err := os.Stat(filepath.Join(layout.UnitDir, (Units{}).Recovery())); err == nil {
				t.Skip("this machine has an updater")
			}
			got, err := u.Rescuer()
			if got != tc.want || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.fails)
			}
		})
	}
}
