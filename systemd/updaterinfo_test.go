package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/golden"
)

func TestWhatTheAgentIsToldKeepsItsForm(t *testing.T) {
	for dir, r := range map[string]UpdaterInfo{
		"usual":          {"/opt/teleport-update", "/opt/teleport-update/update_config.yaml", "/run/teleport-update-agent"},
		"moved":          {"/opt/100% t/versions", `/opt/"t"/update_config.yaml`, "/run/teleport-update-agent"},
		"without-folder": {"/opt/teleport-update", "/opt/teleport-update/update_config.yaml", ""},
	} {
		golden.File(t, filepath.Join("testdata", "report", dir+".conf"), string(r.content()))
	}
}

func TestADropInOfSomebodyElseIsNeitherWrittenNorRemoved(t *testing.T) {
	u := Units{UnitDir: t.TempDir(), ConfigDir: t.TempDir(), Binary: "/bin/true"}
	r := UpdaterInfo{InstallDir: "/a", ConfigFile: "/a/c", RunDir: "/run/r"}
	own := filepath.Join(filepath.Dir(u.UpdaterInfoFile()), "mine.conf")
	for n, want := range []bool{true, false} {
		if changed, err := u.WriteUpdaterInfo(r); err != nil || changed != want {
			t.Errorf("write %d: %v, %v", n, changed, err)
		}
	}
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for n, want := range []bool{true, false} {
		if changed, err := u.EraseUpdaterInfo(); err != nil || changed != want {
			t.Errorf("erase %d: %v, %v", n, changed, err)
		}
	}
	if names, err := os.ReadDir(filepath.Dir(own)); err != nil || len(names) != 1 {
		t.Errorf("left: %v, %v", names, err)
	}
	// A run that was killed may have come no further than the folder.
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if changed, err := u.EraseUpdaterInfo(); err != nil || changed {
		t.Errorf("erase an empty folder: %v, %v", changed, err)
	}
	if names, err := os.ReadDir(u.UnitDir); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	theirs := "[Service]\nEnvironment=TELEPORT_UPDATE_INSTALL_DIR=/elsewhere\n"
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.UpdaterInfoFile(), []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := u.WriteUpdaterInfo(r); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("writing over somebody else's ends with %v", err)
	}
	if changed, err := u.EraseUpdaterInfo(); err != nil || changed {
		t.Errorf("erasing somebody else's: %v, %v", changed, err)
	}
	if text, err := os.ReadFile(u.UpdaterInfoFile()); err != nil || string(text) != theirs {
		t.Errorf("it is %q, %v", text, err)
	}
}
