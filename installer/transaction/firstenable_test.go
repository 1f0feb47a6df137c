package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// firstEnable is a host whose agent somebody installed by hand, as plain files: 1.0.0 is what
// they are, and no version of the store.
func firstEnable(t *testing.T, f fate) *model {
	m := newHost(t, "1.0.0", "1.1.0", map[string]behaviour{"1.1.0": two(f)})
	m.versions = map[string]behaviour{"1.0.0": one, "1.1.0": two(f)}
	program := filepath.Join(m.Host.Paths.LinkDir, "teleport")
	writeFile(t, program, "1.0.0")
	must(t, os.Chmod(program, 0o755))
	writeFile(t, m.Host.Paths.Unit(), "[Service]\n# 1.0.0\n")
	m.readUnits()
	m.launch()
	return m
}

func (m *model) firstRequest() Request {
	r := m.request(Enable)
	r.From = version.Release{}
	r.Spec = &state.Spec{Proxy: "proxy", Enabled: true, Health: state.HealthSpec{Settings: settings.Settings{ReadyURL: readyURL}}}
	return r
}

// firstEnded says what is wrong after a first enable that was closed: the version is active, or all
// is what was found.
func (m *model) firstEnded() error {
	if m.committedOn(m.to) {
		return m.closed()
	}
	if host.Exists(m.Host.Paths.Journal()) {
		return fmt.Errorf("the journal is open")
	}
	if info, err := os.Lstat(filepath.Join(m.Host.Paths.LinkDir, "teleport")); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("what was installed by hand is %v, %w", info, err)
	}
	c, err := m.Host.Paths.LoadConfig()
	if err != nil || c.Spec.ActiveVersion != "" || c.Spec.Enabled {
		return fmt.Errorf("updates.yaml says %+v, %w", c.Spec, err)
	}
	return m.sound()
}

func TestAFirstEnableTakesOverWhatRunsOrLeavesIt(t *testing.T) {
	for _, f := range []fate{holds, diesFirst, dies, diesLate, neverReady} {
		t.Run(string(f), func(t *testing.T) {
			m := firstEnable(t, f)
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) })
			if (err == nil) != (f == holds) || m.committedOn(m.to) != (f == holds) {
				t.Errorf("it ends with %v, and the version is active: %t", err, m.committedOn(m.to))
			}
			if err := m.firstEnded(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The timer that it leaves is enabled, also if one before it was cut off between the timer's unit and what
// enables that, as if somebody had disabled it. Other transactions leave a timer that is disabled so.
func TestAnEnableEnablesTheTimer(t *testing.T) {
	for _, kind := range []Kind{Enable, Update} {
		m := firstEnable(t, holds)
		request := m.firstRequest()
		if kind != Enable {
			m = upgrade(t, two(holds))
			request = m.request(kind)
		}
		_, err := m.Host.InstallUnits(t.Context(), m, host.Installing{EnableTimer: true})
		must(t, err)
		link := filepath.Join(m.Host.Paths.UnitDir, "timers.target.wants/teleport-update.timer")
		must(t, os.Remove(link))
		if err, _ := m.runs(func() error { return m.transact(t.Context(), request) }); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if enabled := host.Exists(link); enabled != (kind == Enable) {
			t.Errorf("%s: the timer is enabled: %t", kind, enabled)
		}
	}
}

// Cut off at any call, it is closed by the next boot and its first run, or by the next run.
func TestAFirstEnableThatIsCutOff(t *testing.T) {
	some := sampled{every: 13}
	for _, f := range []fate{holds, diesLate} {
		dry := firstEnable(t, f)
		dry.runs(func() error { return dry.transact(t.Context(), dry.firstRequest()) })
		for n, call := range dry.calls {
			for _, boot := range []bool{false, true} {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s/boot=%v/%d %s", f, boot, n, call), func(t *testing.T) {
					t.Parallel()
					m := firstEnable(t, f)
					m.calls = nil
					m.meets(n, outcome{after: func(*model) error { panic(killed{}) }})
					if _, dead := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); !dead {
						t.Fatalf("it was not killed: %q", m.calls)
					}
					m.dropHooks()
					if boot {
						if err, _ := m.reboot(); err != nil {
							t.Errorf("the boot ends with %v", err)
						}
					}
					if err, _ := m.tick(); err != nil {
						t.Errorf("the next run ends with %v", err)
					}
					if err := m.firstEnded(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
