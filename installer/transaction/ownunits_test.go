package transaction

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/internal/durable"
	"teleport-update/systemd"
)

// purged is an enabled host on which others removed the updater's unit files, the fixed copy, or both. A drop-in
// carries what an administrator wrote into the unit before.
type purged struct{ units, copied bool }

func (p purged) make(t *testing.T, kind Kind) *model {
	m := upgrade(t, two(dies))
	if kind == Rollback {
		m = downgrade(t, dies)
	}
	carried := systemd.Carried{DropIn: []byte("[Service]\nEnvironment=TELEPORT_CONFIG_FILE=/srv/teleport.yaml\nUser=teleport\n")}
	must(t, m.Host.OwnUnits().WriteCarried(carried, "x"))
	files, err := filepath.Glob(filepath.Join(m.Host.Paths.UnitDir, "teleport-update*"))
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("the updater's unit files are %q", files)
	}
	for _, file := range files {
		if p.units {
			must(t, os.RemoveAll(file))
		}
	}
	if p.copied {
		must(t, durable.RemoveAll(filepath.Dir(m.Host.Paths.Updater())))
	}
	return m
}

// keepsUnits asserts that the host has all that an enabled host counts on.
func (m *model) keepsUnits(led host.Places) {
	m.t.Helper()
	if now := m.led(); now != led {
		m.t.Errorf("the agent's unit led it to %s, and leads it to %s", led, now)
	}
	files := []string{m.Host.Paths.Updater(), m.Host.OwnUnits().CarriedFile()}
	for _, name := range []string{m.Host.OwnUnits().Timer(), m.Host.OwnUnits().Service(), m.Host.OwnUnits().Recovery()} {
		files = append(files, filepath.Join(m.Host.Paths.UnitDir, name))
	}
	for _, file := range files {
		if !host.Exists(file) {
			m.t.Errorf("%s is gone", file)
		}
	}
}

// led are the places to which the agent's unit leads it.
func (m *model) led() host.Places {
	m.t.Helper()
	places, err := host.ForOneLook(m.Host).AgentPlaces()
	must(m.t, err)
	return places
}

// A change that is undone leaves an enabled host what it put back there before, and the drop-ins that were there all the
// time, wherever it is killed.
func TestAnUndoneChangeLeavesAnEnabledHostTheUpdatersUnits(t *testing.T) {
	some := sampled{every: 7}
	for _, kind := range []Kind{Update, Rollback, Pin, Enable} {
		for _, p := range []purged{{units: true}, {copied: true}, {units: true, copied: true}} {
			dry := p.make(t, kind)
			led := dry.led()
			if err := dry.do(kind); err == nil {
				t.Fatalf("%s: a version that dies is proven", kind)
			}
			t.Run(fmt.Sprintf("%s/%+v", kind, p), func(t *testing.T) {
				dry.t = t
				dry.keepsUnits(led)
			})
			for n, call := range dry.calls {
				if some.skips() || !p.units || !p.copied {
					continue
				}
				t.Run(fmt.Sprintf("%s/%+v/killed at %d %s", kind, p, n, call), func(t *testing.T) {
					t.Parallel()
					m := p.make(t, kind)
					m.calls = nil
					m.killedAt(t, kind, n)
					began := host.Exists(m.Host.Paths.Journal())
					m.tick()
					if began {
						m.keepsUnits(led)
					}
					if now := m.led(); now != led {
						t.Errorf("the agent's unit led it to %s, and leads it to %s", led, now)
					}
				})
			}
		}
	}
}

// The record of an older program calls units fresh that it put back.
func TestARecordOfAnOlderProgramRemovesNoUnitsOfAnEnabledHost(t *testing.T) {
	m := purged{units: true}.make(t, Update)
	led := m.led()
	m.at("prove", func() error { panic(killed{}) })
	m.do(Update)
	m.dropHooks()
	j, err := load(m.Host.Paths.Journal())
	must(t, err)
	j.OwnUnits.Fresh = true
	must(t, j.flush())
	m.tick()
	if host.Exists(m.Host.Paths.Journal()) {
		t.Error("the transaction is open")
	}
	m.keepsUnits(led)
}

// Nor does a change that does not begin, since the timer cannot be started, remove anything from an enabled host. One whose
// updates.yaml is lost looks like one that was never enabled.
func TestAChangeThatDoesNotBeginLeavesAnEnabledHostTheUpdatersUnits(t *testing.T) {
	begins := map[string]func(m *model) error{
		"an update":  func(m *model) error { return m.do(Update) },
		"an enable":  func(m *model) error { return m.do(Enable) },
		"a rollback": func(m *model) error { return m.do(Rollback) },
		"units, without updates.yaml": func(m *model) error {
			must(m.t, os.Remove(m.Host.Paths.Config()))
			_, err := m.Host.InstallUnits(m.t.Context(), m, host.Installing{First: true})
			return err
		},
		"units, without originals and links": func(m *model) error {
			m.ends()
			must(m.t, durable.RemoveAll(m.Host.Paths.Original()))
			must(m.t, durable.RemoveAll(m.Host.Paths.LinkDir))
			_, err := m.Host.InstallUnits(m.t.Context(), m, host.Installing{})
			return err
		},
	}
	for name, begin := range begins {
		for _, p := range []purged{{units: true}, {copied: true}, {units: true, copied: true}} {
			t.Run(fmt.Sprintf("%s/%+v", name, p), func(t *testing.T) {
				kind := Update
				if name == "a rollback" {
					kind = Rollback
				}
				m := p.make(t, kind)
				led := m.led()
				m.noTimers = true
				if err := begin(m); err == nil {
					t.Error("it begins without a timer")
				}
				m.keepsUnits(led)
			})
		}
	}
}

// A first enable that comes to nothing takes its units away again.
func TestAFirstEnableThatIsUndoneLeavesNoUnits(t *testing.T) {
	for _, f := range []fate{dies, diesLate, neverReady} {
		for _, without := range []bool{false, true} {
			m := firstEnable(t, f)
			m.noTimers = without
			if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err == nil {
				t.Fatalf("%s: it is proven", f)
			}
			if m.Host.OwnUnits().Present() || host.Exists(m.Host.Paths.Updater()) {
				t.Errorf("%s, no timer %v: units or copy of the updater stay", f, without)
			}
		}
	}
}
