package transaction

import (
	"fmt"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// inAnImage is a host whose root an image build changes: no systemd runs, and no agent.
func inAnImage(t *testing.T, f fate) *model {
	m := newHost(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": two(f)})
	m.booted = false
	m.enable()
	return m
}

// starts is the first boot of the image.
func (m *model) starts() {
	m.t.Helper()
	m.booted = true
	if err, _ := m.reboot(); err != nil {
		m.t.Errorf("the boot of the image ends with %v", err)
	}
}

func TestAnImageBuildChangesTheVersionAndAsksNobody(t *testing.T) {
	m := inAnImage(t, holds)
	if err := m.do(Update); err != nil || len(m.calls) > 0 || m.main != nil {
		t.Errorf("it ends with %v; calls %q, and %+v runs", err, m.calls, m.main)
	}
	c, err := m.Host.Paths.LoadConfig()
	if err != nil || !c.Status.Unproven {
		t.Errorf("%v: %+v; want a version that nobody has seen", err, c.Status)
	}
	m.starts()
	m.endsOn("1.1.0")
}

// Cut off anywhere, the build is closed by the next run in the image, or by the boot of the image
// and its first run.
func TestAnImageBuildThatIsCutOff(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		ended := false
		for n := 0; !ended; n++ {
			t.Run(fmt.Sprintf("goes on %v, cut %d", goesOn, n), func(t *testing.T) {
				m := inAnImage(t, holds)
				looks := 0
				m.Now = func() time.Time {
					if looks++; looks == n+1 {
						panic(killed{})
					}
					return testNow()
				}
				_, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
				ended = !dead
				m.Now = testNow
				was := ""
				if j, err := state.LoadJournal(m.Host.Paths.Journal()); err == nil && j != nil {
					was = string(j.Phase)
				}
				if goesOn {
					if err, _ := m.tick(); err != nil {
						t.Errorf("%s: the next run ends with %v", was, err)
					}
					if len(m.calls) > 0 || host.Exists(m.Host.Paths.Journal()) {
						t.Errorf("%s: calls %q, the journal is open: %t", was, m.calls, host.Exists(m.Host.Paths.Journal()))
					}
				}
				m.starts()
				if err := m.sound(); err != nil {
					t.Errorf("%s: after the boot: %v", was, err)
				}
				if err, _ := m.tick(); err != nil {
					t.Errorf("%s: the first run ends with %v", was, err)
				}
				if err := m.closed(); err != nil {
					t.Errorf("%s: %v", was, err)
				}
			})
		}
	}
}
