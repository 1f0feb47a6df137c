package transaction

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// spoils are what others do to the agent's files under an agent that runs. refused: nothing that the updater has brings them back.
var spoils = map[string]struct {
	refused bool
	does    func(t *testing.T, m *model, program, link string)
}{
	"nothing":              {false, func(*testing.T, *model, string, string) {}},
	"the program is empty": {true, func(t *testing.T, _ *model, program, _ string) { must(t, os.Truncate(program, 0)) }},
	"the program is gone":  {true, func(t *testing.T, _ *model, program, _ string) { must(t, os.Remove(program)) }},
	"the program may not be executed": {true, func(t *testing.T, _ *model, program, _ string) {
		must(t, os.Chmod(program, 0o644))
	}},
	"a helper is empty": {true, func(t *testing.T, _ *model, program, _ string) {
		must(t, os.Truncate(filepath.Join(filepath.Dir(program), "tsh"), 0))
	}},
	"all programs are gone": {true, func(t *testing.T, _ *model, program, _ string) { must(t, os.RemoveAll(filepath.Dir(program))) }},
	"the link is gone":      {false, func(t *testing.T, _ *model, _, link string) { must(t, os.Remove(link)) }},
	"all links are gone":    {false, func(t *testing.T, _ *model, _, link string) { must(t, os.RemoveAll(filepath.Dir(link))) }},
	"the link leads nowhere": {false, func(t *testing.T, _ *model, _, link string) {
		must(t, os.Remove(link))
		must(t, os.Symlink("/nonexistent/teleport", link))
	}},
	"the link leads to another version": {false, func(t *testing.T, m *model, program, link string) {
		m.release("1.0.5")
		must(t, os.Remove(link))
		must(t, os.Symlink(filepath.Join(filepath.Dir(program), "../../1.0.5/bin/teleport"), link))
	}},
	"the link is an empty file": {true, func(t *testing.T, _ *model, _, link string) {
		must(t, os.Remove(link))
		writeFile(t, link, "")
	}},
	"the link is a folder": {true, func(t *testing.T, _ *model, _, link string) {
		must(t, os.Remove(link))
		must(t, os.Mkdir(link, 0o755))
	}},
	"the unit is gone":  {false, func(t *testing.T, m *model, _, _ string) { must(t, os.Remove(m.Host.Paths.Unit())) }},
	"the unit is empty": {false, func(t *testing.T, m *model, _, _ string) { must(t, os.Truncate(m.Host.Paths.Unit(), 0)) }},
	"the unit is a folder": {true, func(t *testing.T, m *model, _, _ string) {
		must(t, os.Remove(m.Host.Paths.Unit()))
		must(t, os.Mkdir(m.Host.Paths.Unit(), 0o755))
	}},
}

// What an uninstall leaves is a program, and starts at the next boot; or nothing is changed.
func TestAnUninstallThatKeepsTheAgentLeavesOneThatStarts(t *testing.T) {
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			m := migrated(t)
			link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
			program := filepath.Join(m.Host.Paths.Versions(), "1.1.0", "bin", "teleport")
			spoil.does(t, m, program, link)
			err, _ := m.leave(state.Uninstall{KeepAgent: true})
			if failure.Is[*failure.RefusedError](err) != spoil.refused && err == nil || !spoil.refused && err != nil {
				t.Fatalf("it ends with %v; want it refused: %t", err, spoil.refused)
			}
			if spoil.refused {
				if c, err := m.Host.Paths.LoadConfig(); err != nil || !c.Spec.Enabled || host.Exists(m.Host.Paths.Journal()) {
					t.Errorf("something was changed: %+v, %v", c.Spec, err)
				}
				return
			}
			for _, name := range []string{"teleport", "tsh"} {
				if info, err := os.Lstat(filepath.Join(m.Host.Paths.LinkDir, name)); err != nil || !info.Mode().IsRegular() {
					t.Errorf("%s is %v, %v", name, info, err)
				}
			}
			m.reboot()
			if err := m.sound(); err != nil {
				t.Errorf("after a boot: %v", err)
			}
		})
	}
}

// What somebody put in the place of a helper, and wrote into the unit, is theirs, and there is no other copy of it.
func TestAnUninstallThatKeepsTheAgentLeavesWhatIsOfOthers(t *testing.T) {
	m := migrated(t)
	theirs := map[string]string{
		filepath.Join(m.Host.Paths.LinkDir, "tsh"): "mine",
		m.Host.Paths.Unit():                        "[Service]\n# 1.1.0\nNice=5\n",
	}
	must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "tsh")))
	for path, content := range theirs {
		writeFile(t, path, content)
	}
	if err, _ := m.leave(state.Uninstall{KeepAgent: true}); err != nil {
		t.Fatal(err)
	}
	for path, content := range theirs {
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%s has %q, %v", path, now, err)
		}
	}
	m.reboot()
	if err := m.sound(); err != nil {
		t.Error(err)
	}
}
