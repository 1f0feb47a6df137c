package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
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
			err, _ := m.leave(false)
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
	if err, _ := m.leave(false); err != nil {
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

// carriedHost is one whose administrator had written into the unit before where the agent has its configuration.
func carriedHost(t *testing.T) *model {
	m := migrated(t)
	must(t, m.Host.OwnUnits().WriteCarried(systemd.Carried{
		DropIn: []byte("[Service]\nEnvironment=TELEPORT_CONFIG_FILE=/srv/teleport.yaml\nUser=teleport\n"),
	}, "/etc/systemd/system/teleport.service"))
	return m
}

// dropIns are those of the agent's unit.
func (m *model) dropIns() (names []string, all string) {
	m.t.Helper()
	names, err := filepath.Glob(filepath.Join(m.Host.Paths.Unit()+".d", "*.conf"))
	must(m.t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(m.t, err)
		all += string(text)
	}
	return names, all
}

// An agent that stays is started with what led it before, also by an uninstall that is cut off, and after the next life of the
// updater on this host.
func TestAnUninstallThatKeepsTheAgentKeepsItsSettings(t *testing.T) {
	places := func(m *model) host.Places {
		t.Helper()
		p, err := host.ForOneLook(m.Host).AgentPlaces()
		must(t, err)
		return p
	}
	dry := carriedHost(t)
	before := places(dry)
	if before.Config != "/srv/teleport.yaml" {
		t.Fatalf("the agent is led to %+v", before)
	}
	holds := func(t *testing.T, m *model) {
		t.Helper()
		names, all := m.dropIns()
		if places(m) != before || len(names) != 1 || names[0] == m.Host.OwnUnits().CarriedFile() || strings.Contains(all, "Part of teleport-update") {
			t.Errorf("the agent is led to %+v, by %q:\n%s", places(m), names, all)
		}
		if !strings.Contains(all, "User=teleport\n") {
			t.Errorf("User= is lost:\n%s", all)
		}
	}
	if err, _ := dry.leave(false); err != nil {
		t.Fatal(err)
	}
	holds(t, dry)
	for n, call := range dry.calls {
		for name, o := range map[string]outcome{
			"killed before": {before: func(*model) error { panic(killed{}) }},
			"killed after":  {after: func(*model) error { panic(killed{}) }},
		} {
			for _, boot := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/boot=%v/%d %s", name, boot, n, call), func(t *testing.T) {
					m := carriedHost(t)
					m.meets(n, o)
					m.leave(false)
					m.dropHooks()
					if places(m) != before {
						t.Errorf("after the cut the agent is led to %+v", places(m))
					}
					if boot {
						m.reboot()
					}
					if host.Exists(m.Host.Paths.Versions()) {
						if err, _ := m.leave(false); err != nil {
							t.Errorf("once more, it ends with %v", err)
						}
					}
					holds(t, m)
				})
			}
		}
	}
	must(t, dry.Host.OwnUnits().Erase()) // as a later uninstall does
	holds(t, dry)
}
