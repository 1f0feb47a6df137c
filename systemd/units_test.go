package systemd

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tempUnits has all its folders under one root, with names that need quoting.
func tempUnits(t *testing.T) (Units, string) {
	t.Helper()
	root := t.TempDir()
	return Units{
		UnitDir:     root + "/unit dir",
		ConfigDir:   root + "/etc",
		Binary:      root + "/opt/100%/teleport-update",
		LinkDir:     root + `/a "b" \c`,
		DataDir:     root + "/data $HOME",
		PackageDirs: []string{root + "/package"},
	}, root
}

func TestWhatAPackageHasInTheFolderOfUnitsIsSeen(t *testing.T) {
	u, root := tempUnits(t)
	if err := os.MkdirAll(root+"/package", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("package", root+"/lib"); err != nil {
		t.Fatal(err)
	}
	inPackages := u
	inPackages.UnitDir = root + "/lib"
	if got := inPackages.InPackageDir(); got != "" {
		t.Errorf("an empty folder has %s", got)
	}
	writeFile(t, root+"/package/"+u.Service(), "[Service]\nExecStart=/another/updater\n")
	if got := inPackages.InPackageDir(); got != "" {
		t.Errorf("a stranger's file is taken for the package's: %s", got)
	}
	files, err := u.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		writeFile(t, root+"/package/"+f.Name, string(f.Content))
		writeFile(t, u.UnitDir+"/"+f.Name, string(f.Content))
	}
	inPackages.Binary = "/opt/copy/teleport-update"
	if got := inPackages.InPackageDir(); filepath.Dir(got) != root+"/lib" {
		t.Errorf("the package's units are at %q", got)
	}
	mine, err := inPackages.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range mine { // by an enable that was cut off before it was recorded
		writeFile(t, root+"/package/"+f.Name, string(f.Content))
	}
	if got := inPackages.InPackageDir(); got != "" {
		t.Errorf("what would be written is there, and is taken for a package's: %s", got)
	}
	if got := u.InPackageDir(); got != "" {
		t.Errorf("a folder of one's own has %s of a package", got)
	}
}

// tree lists files with their content and links with their targets.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			found[name] = "-> " + strings.TrimPrefix(target, root+"/")
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestInstallWritesAndEnablesOnce(t *testing.T) {
	units, root := tempUnits(t)
	if problems := units.Problems(); len(problems) != 8 {
		t.Errorf("problems of nothing: %q", problems)
	}
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	want := map[string]string{
		"etc/timers.target.wants/teleport-update.timer":               "-> unit dir/teleport-update.timer",
		"etc/multi-user.target.wants/teleport-update-recover.service": "-> unit dir/teleport-update-recover.service",
	}
	files, err := units.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want["unit dir/"+f.Name] = string(f.Content)
	}
	if !maps.Equal(got, want) {
		t.Errorf("tree %q; want %q", got, want)
	}
	if problems := units.Problems(); problems != nil {
		t.Errorf("problems after Install: %q", problems)
	}

	long := time.Unix(1e9, 0)
	for name := range got {
		if !strings.HasPrefix(name, "etc") {
			if err := os.Chtimes(filepath.Join(root, name), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	for name := range got {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.ModTime().Equal(long) {
			t.Errorf("%s was written again, %v", name, err)
		}
	}
}

func TestInstallPutsRightWhatIsAmiss(t *testing.T) {
	for _, w := range []struct {
		name    string
		damage  func(t *testing.T, root string)
		problem string
	}{
		{"a file changed", func(t *testing.T, root string) {
			writeFile(t, root+"/unit dir/teleport-update.timer", mark+"\n[Timer]\n")
		}, "teleport-update.timer is not as"},
		{"a file nobody may read", func(t *testing.T, root string) {
			if err := os.Chmod(root+"/unit dir/teleport-update.timer", 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not as"},
		{"a file missing", func(t *testing.T, root string) {
			os.Remove(root + "/unit dir/teleport-update.service")
		}, "teleport-update.service is missing"},
		{"the recovery not enabled", func(t *testing.T, root string) {
			os.Remove(root + "/etc/multi-user.target.wants/teleport-update-recover.service")
		}, "teleport-update-recover.service is not enabled"},
		{"enabled with another file", func(t *testing.T, root string) {
			link := root + "/etc/timers.target.wants/teleport-update.timer"
			os.Remove(link)
			if err := os.Symlink("/dev/null", link); err != nil {
				t.Fatal(err)
			}
		}, "is not enabled"},
	} {
		t.Run(w.name, func(t *testing.T) {
			units, root := tempUnits(t)
			if _, err := units.Write(); err != nil {
				t.Fatal(err)
			}
			before := tree(t, root)
			w.damage(t, root)
			if problems := strings.Join(units.Problems(), "\n"); !strings.Contains(problems, w.problem) {
				t.Errorf("problems %q; want %q", problems, w.problem)
			}
			if _, err := units.Write(); err != nil {
				t.Fatal(err)
			}
			if got := tree(t, root); !maps.Equal(got, before) {
				t.Errorf("tree %q; want %q", got, before)
			}
			if problems := units.Problems(); problems != nil {
				t.Errorf("problems after Install: %q", problems)
			}
		})
	}
}

func TestSomebodyElsesUnitIsLeftAlone(t *testing.T) {
	units, root := tempUnits(t)
	writeFile(t, root+"/unit dir/teleport-update.timer", "[Timer]\nOnCalendar=daily\n")
	before := tree(t, root)
	_, err := units.Write()
	if err == nil || !strings.Contains(err.Error(), root+"/unit dir/teleport-update.timer") {
		t.Errorf("Install: %v; want an error that names the file", err)
	}
	if got := tree(t, root); !maps.Equal(got, before) {
		t.Errorf("tree %q; want %q", got, before)
	}
	if problems := strings.Join(units.Problems(), "\n"); !strings.Contains(problems, "not teleport-update's own") {
		t.Errorf("problems %q", problems)
	}
	if err := units.Erase(); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, root); !maps.Equal(got, before) {
		t.Errorf("tree %q after Remove; want %q", got, before)
	}
}

// What an administrator put in front is not repaired, so it is no problem of Write's; a
// masked timer is what the administrator wants.
func TestAnAdministratorsUnitInFrontIsNamed(t *testing.T) {
	units, root := tempUnits(t)
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, to, want string }{
		{"teleport-update.timer", "/dev/null", ""},
		{"teleport-update-recover.service", "/dev/null", "teleport-update-recover.service is masked: `systemctl unmask teleport-update-recover.service`"},
		{"teleport-update.timer", "/etc/hosts", root + "/etc/teleport-update.timer takes precedence over " + units.UnitDir + "/teleport-update.timer: remove it"},
		{"teleport-update.timer", units.UnitDir + "/teleport-update.timer", ""}, // the same file
	} {
		above := filepath.Join(root, "etc", tc.name)
		if err := os.Symlink(tc.to, above); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(units.Overruled(), "\n"); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s leads to %s: %q; want %q", tc.name, tc.to, got, tc.want)
		}
		if problems := units.Problems(); problems != nil {
			t.Errorf("%s leads to %s: problems %q that Write cannot put right", tc.name, tc.to, problems)
		}
		if err := os.Remove(above); err != nil {
			t.Fatal(err)
		}
	}
}

// A timer that somebody disabled is a setting: it is no problem, and only enabling it brings the link back.
func TestADisabledTimerStaysDisabled(t *testing.T) {
	units, root := tempUnits(t)
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	enabled := tree(t, root)
	if err := os.Remove(root + "/etc/timers.target.wants/teleport-update.timer"); err != nil {
		t.Fatal(err)
	}
	disabled := tree(t, root)
	if problems := units.Problems(); problems != nil {
		t.Errorf("problems: %q", problems)
	}
	// What else is wrong is repaired beside it.
	writeFile(t, root+"/unit dir/teleport-update.timer", mark+"\n[Timer]\n")
	if problems := units.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "teleport-update.timer is not as") {
		t.Errorf("problems: %q", problems)
	}
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, root); !maps.Equal(got, disabled) {
		t.Errorf("tree %q; want %q", got, disabled)
	}
	units.EnableTimer = true
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, root); !maps.Equal(got, enabled) {
		t.Errorf("tree %q; want %q", got, enabled)
	}
}

func TestAPackagesUnitsAreOnlyEnabled(t *testing.T) {
	dir := t.TempDir()
	// The usual folders, because only for them a package's units are right. Nothing
	// is written there: the package has all.
	units := Units{Binary: "/usr/bin/teleport-update", ConfigDir: dir + "/etc", PackageDirs: []string{dir + "/none", dir + "/package"},
		EnableTimer: true}
	files, err := units.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		writeFile(t, filepath.Join(dir, "package", f.Name), "[Unit]\n")
	}
	places, err := units.withDefaults().places()
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	for _, p := range places {
		p.own = filepath.Join(own, p.Name)
		if _, err := p.install(); err != nil {
			t.Fatal(err)
		}
		if !p.enabled() || p.problems() != nil {
			t.Errorf("%s: %q", p.Name, p.problems())
		}
		// One of ours from before the package came would hide the package's.
		writeFile(t, p.own, string(p.Content))
		p.present = p.Content
		if problems := p.problems(); len(problems) != 1 || !strings.Contains(problems[0], "takes precedence over") {
			t.Errorf("problems %q", problems)
		}
		if changed, err := p.install(); err != nil || !changed {
			t.Errorf("changed %v, %v; want the file in front gone", changed, err)
		}
	}
	if got := tree(t, own); len(got) != 0 {
		t.Errorf("files of ours: %q", got)
	}
	want := "-> package/teleport-update.timer"
	if got := tree(t, dir)["etc/timers.target.wants/teleport-update.timer"]; got != want {
		t.Errorf("the timer is enabled by a link %q; want %q", got, want)
	}
}

func TestOtherFoldersNeedUnitsOfTheirOwn(t *testing.T) {
	units, root := tempUnits(t)
	writeFile(t, root+"/package/teleport-update.timer", "[Unit]\n")
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	if _, ok := tree(t, root)["unit dir/teleport-update.timer"]; !ok {
		t.Error("the package's unit was taken, which works on other folders")
	}
}

func TestRemoveUndoesInstall(t *testing.T) {
	units, root := tempUnits(t)
	if _, err := units.Write(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := units.Erase(); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, root); len(got) != 0 {
			t.Errorf("left behind: %q", got)
		}
	}
}

// Where another updater's timer stands, nothing of that name is written, enabled or taken
// away.
func TestUnitsLeaveAnotherUpdatersTimerAlone(t *testing.T) {
	u := Units{UnitDir: t.TempDir(), ConfigDir: t.TempDir(), Binary: "/usr/bin/teleport-update", PackageDirs: []string{}}
	if u.OthersTimer() {
		t.Error("an empty folder has another updater's timer")
	}
	timer, wants := filepath.Join(u.ConfigDir, (Units{}).Timer()), filepath.Join(u.ConfigDir, "timers.target.wants", (Units{}).Timer())
	for _, err := range []error{os.WriteFile(timer, []byte("[Timer]\n"), 0o644), os.Mkdir(filepath.Dir(wants), 0o755), os.Symlink(timer, wants)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !u.OthersTimer() {
		t.Fatal("another updater's timer is not seen")
	}
	u.RecoveryOnly = true
	theirs := func() {
		t.Helper()
		if got, err := os.Readlink(wants); err != nil || got != timer {
			t.Errorf("%s leads to %q (%v)", wants, got, err)
		}
		if names, _ := filepath.Glob(filepath.Join(u.UnitDir, "teleport-update.*")); len(names) > 0 {
			t.Errorf("written were %q", names)
		}
	}
	if _, err := u.Write(); err != nil {
		t.Fatal(err)
	}
	theirs()
	if problems := u.Problems(); len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
	if err := u.Erase(); err != nil {
		t.Fatal(err)
	}
	theirs()
	if u.Present() {
		t.Error("the recovery is left")
	}
}
