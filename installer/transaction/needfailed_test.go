package transaction

import (
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// systemd leaves the agent up when a unit that it needs crashes, and starts that unit again before the agent's next process. Whether it
// starts nobody knows: no change stops an agent that serves.
func TestAnAgentWhoseNeedFailedIsNotStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		model   func(t *testing.T) *model
		kind    Kind
		setting string
	}{
		"an update":                 {func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, "Requires"},
		"a downgrade":               {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade, "Requires"},
		"a downgrade with BindsTo=": {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade, "BindsTo"},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.model(t)
			before := m.main.pid
			m.ties.Needs = []systemd.Need{{Setting: tc.setting, Unit: "vpn.service"}}
			m.crashed = "vpn.service"
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(tc.kind)) })
			says := "vpn.service, which teleport.service needs (" + tc.setting + "=), is failed: `systemctl status vpn.service` says why"
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), says) {
				t.Errorf("it ends with %v; want %q", err, says)
			}
			if m.main == nil || m.main.pid != before {
				t.Fatal("the agent was stopped")
			}
			if c, err := m.Host.Paths.LoadConfig(); err != nil || c.Status.Failed != nil {
				t.Errorf("it is held against the version: %+v (%v)", c.Status, err)
			}
			m.crashed = ""
			if err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(tc.kind)) }); err != nil {
				t.Error(err)
			}
			m.endsOn(m.to.Version)
		})
	}
}

// A person's restart is refused likewise.
func TestAnAgentWhoseNeedFailedIsNotRestarted(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.ties.Needs = []systemd.Need{{Setting: "Requires", Unit: "vpn.service"}}
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	must(t, CheckRestart(t.Context(), m.Machine, c))
	m.crashed = "vpn.service"
	if err := CheckRestart(t.Context(), m.Machine, c); err == nil || !strings.Contains(err.Error(), "vpn.service") {
		t.Errorf("the restart is allowed: %v", err)
	}
}
