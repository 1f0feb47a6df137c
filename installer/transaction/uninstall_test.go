package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// tracesOfAnEnable show that one was proven, though updates.yaml, which is gone,
// does not say so. There is no version in the store: what runs must not matter.
var tracesOfAnEnable = map[string]func(*testing.T, *Machine){
	"a link leads into the store": func(t *testing.T, i *Machine) {
		must(t, os.MkdirAll(i.Host.Paths.LinkDir, 0o755))
		must(t, os.Symlink(filepath.Join(i.Host.Paths.Versions(), "1.0.0/bin/teleport"), filepath.Join(i.Host.Paths.LinkDir, "teleport")))
	},
	"what was here before is known": func(t *testing.T, i *Machine) { must(t, i.Host.WriteOriginals(host.Originals{})) },
	"what was here before cannot be read": func(t *testing.T, i *Machine) {
		writeFile(t, filepath.Join(i.Host.Paths.Original(), "before.json"), "{")
	},
}

// saved is a host with the copy of a file that a link took the place of.
func saved(t *testing.T) (i *Machine, copied string) {
	t.Helper()
	i = testMachine(t)
	copied = filepath.Join(i.Host.Paths.Original(), "teleport-0123456789abcdef")
	writeFile(t, copied, "mine")
	return i, copied
}

func TestUninstallDoesNotTakeALostConfigurationForNone(t *testing.T) {
	for name, trace := range tracesOfAnEnable {
		t.Run(name, func(t *testing.T) {
			i, copied := saved(t)
			trace(t, i)
			for _, withAgent := range []bool{false, true} {
				_, err := i.Uninstall(t.Context(), withAgent)
				if !failure.Is[*failure.RefusedError](err) {
					t.Errorf("with the agent %v: %v; want a refusal", withAgent, err)
				}
				if !host.Exists(copied) || host.Exists(i.Host.Paths.Config()) {
					t.Errorf("with the agent %v: something was changed", withAgent)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		i, _ := saved(t)
		c := state.EmptyConfig()
		c.Spec.TextfileDir = t.TempDir()
		must(t, c.Save(i.Host.Paths.Config()))
		must(t, state.WriteTextfile(c.Spec.TextfileDir, nil))
		_, err := i.Uninstall(t.Context(), false)
		must(t, err)
		if host.Exists(i.Host.Paths.Versions()) {
			t.Error("the store is still there")
		}
		if left, _ := os.ReadDir(c.Spec.TextfileDir); len(left) > 0 {
			t.Errorf("the metrics are still there: %v", left)
		}
	})
}

// Whenever the command ends, the agent that ran runs, and starts at a boot by what is there. Run again, the command comes to its end.
func TestAnUninstallThatIsCutOffLeavesTheAgent(t *testing.T) {
	dry := migrated(t)
	must(t, second(dry.leave(false)))
	if len(dry.calls) < 2 {
		t.Fatalf("the calls are %q", dry.calls)
	}
	for n, call := range dry.calls {
		for name, o := range map[string]outcome{
			"killed before": {before: func(*model) error { panic(killed{}) }},
			"killed after":  {after: func(*model) error { panic(killed{}) }},
			"fails":         {before: func(*model) error { return errNoAnswer }},
		} {
			for _, boot := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/boot=%v/%d %s", name, boot, n, call), func(t *testing.T) {
					m := migrated(t)
					before := m.main
					m.meets(n, o)
					m.leave(false)
					m.dropHooks()
					if m.main != before || slices.Contains(m.calls, "stop") {
						t.Errorf("the agent is %+v; calls %q", m.main, m.calls)
					}
					if boot {
						m.reboot()
						if err := m.sound(); err != nil {
							t.Errorf("after a boot: %v", err)
						}
					}
					if err := second(m.leave(false)); err != nil || host.Exists(m.Host.Paths.Versions()) {
						t.Errorf("once more, it ends with %v", err)
					}
					if err := m.sound(); err != nil {
						t.Error(err)
					}
					m.reboot()
					if err := m.sound(); err != nil {
						t.Errorf("after the last boot: %v", err)
					}
				})
			}
		}
	}
}

func second(err error, _ bool) error { return err }

// An open transaction needs the files that an uninstall would remove.
func TestAnUninstallIsRefusedWhileATransactionIsOpen(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.cut("prove", 1, false)
	m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
	m.dropHooks()
	for _, withAgent := range []bool{false, true} {
		before := m.files()
		err, _ := m.leave(withAgent)
		if !failure.Is[*failure.RefusedError](err) || !saysAll(err, []string{"`teleport-update update` closes it"}) || m.files() != before {
			t.Errorf("it ends with %v", err)
		}
	}
	must(t, second(m.tick()))
	must(t, second(m.leave(false)))
}

// Units that stayed down do not keep the updater on the host. An agent that our stop left down does.
func TestAnUninstallAfterAStopOfOurs(t *testing.T) {
	for name, tc := range map[string]struct {
		started, withAgent, refused bool
	}{
		"the agent is down":                            {refused: true},
		"the agent is down, and goes":                  {withAgent: true},
		"the agent was started, and units stayed down": {started: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := migrated(t).dependentOn()
			must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
			if tc.started {
				must(t, m.startUnit())
			}
			err, _ := m.leave(tc.withAgent)
			if tc.refused {
				if !failure.Is[*failure.RefusedError](err) || !saysAll(err, []string{"the agent is down", "`teleport-update update` starts it"}) {
					t.Errorf("it ends with %v", err)
				}
				must(t, second(m.tick()))
				must(t, second(m.leave(false)))
				return
			}
			if err != nil || !nothingStopped(m.Host.Paths) {
				t.Errorf("it ends with %v; a note stays: %v", err, !nothingStopped(m.Host.Paths))
			}
		})
	}
}

func TestAnUninstallWithTheAgentLeavesNothingButData(t *testing.T) {
	for name, spoil := range map[string]func(m *model, program string){
		"":                    func(*model, string) {},
		"its tree is damaged": func(m *model, program string) { must(m.t, os.Truncate(program, 0)) },
		"its tree is gone":    func(m *model, program string) { must(m.t, os.RemoveAll(filepath.Dir(filepath.Dir(program)))) },
		"some files are plain": func(m *model, program string) {
			must(m.t, os.Remove(m.Host.Paths.LinkDir+"/tsh"))
			copyTo(m.t, filepath.Dir(program)+"/tsh", m.Host.Paths.LinkDir+"/tsh")
		},
		"it was stopped before": func(m *model, _ string) { m.stopUnit() },
		"an uninstall without the agent was cut off, and its tree is gone": func(m *model, program string) {
			m.at("daemon-reload", func() error { return errNoAnswer })
			if err, _ := m.leave(false); err == nil {
				m.t.Fatal("it was not cut off")
			}
			m.dropHooks()
			must(m.t, os.RemoveAll(filepath.Dir(filepath.Dir(program))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := migrated(t)
			spoil(m, filepath.Join(m.Host.Paths.Versions(), "1.1.0", "bin", "teleport"))
			must(t, second(m.leave(true)))
			for _, path := range []string{m.Host.Paths.Unit(), m.Host.Paths.Versions(), filepath.Join(m.Host.Paths.LinkDir, "teleport"),
				filepath.Join(m.Host.Paths.LinkDir, "tsh"), m.Host.Paths.Updater(), m.Host.Paths.Stopped()} {
				if path != "" && host.Exists(path) {
					t.Errorf("%s is left", path)
				}
			}
			if m.main != nil || !host.Exists(m.db) {
				t.Errorf("the agent is %+v, its data are there: %v", m.main, host.Exists(m.db))
			}
		})
	}
}

func copyTo(t *testing.T, from, to string) {
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o755))
}

// A process executes from a version, such as the agent that was left alone: the version stays, and nothing else does.
func TestAnUninstallLeavesWhatIsExecuted(t *testing.T) {
	m := migrated(t)
	program := filepath.Join(m.Host.Paths.Versions(), "1.1.0", "bin", "teleport")
	proc := t.TempDir()
	for _, name := range []string{"7", "8", "self"} {
		must(t, os.Mkdir(filepath.Join(proc, name), 0o755))
	}
	must(t, os.Symlink(program, filepath.Join(proc, "7", "exe")))
	must(t, os.Symlink(filepath.Join(m.Host.Paths.Versions(), "1.0.0", "bin", host.UpdaterName), filepath.Join(proc, "8", "exe"))) // this command
	m.Host.Store.ProcDir = proc
	for range 2 { // the second time, only the version is left
		u, err := m.Uninstall(t.Context(), false)
		if dir := filepath.Join(m.Host.Paths.Versions(), "1.1.0"); err != nil || !slices.Equal(u.Executing, []string{dir}) {
			t.Fatalf("%+v, %v", u, err)
		}
		entries, err := os.ReadDir(m.Host.Paths.Versions())
		if err != nil || len(entries) != 1 || !host.Exists(program) {
			t.Errorf("left are %v, %v", entries, err)
		}
	}
	must(t, os.Remove(filepath.Join(proc, "7", "exe")))
	if _, err := m.Uninstall(t.Context(), false); err != nil || host.Exists(m.Host.Paths.Versions()) {
		t.Errorf("once it has ended: %v", err)
	}
	if err := m.sound(); err != nil {
		t.Error(err)
	}
}
