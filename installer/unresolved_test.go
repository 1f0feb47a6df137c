package installer

import (
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/transaction"
	"teleport-update/systemd"
)

// Where the agent's unit leads it may be for systemd alone to tell. No version is changed then, and the agent starts by it all the same:
// status says the one, and advises the restart that is due.
func TestAPlaceThatOnlySystemdKnowsKeepsNoAgentFromStarting(t *testing.T) {
	for name, tc := range map[string]struct{ command, names string }{
		"a specifier":     {"start --config /srv/%H/teleport.yaml", "%H"},
		"a relative path": {"start --config teleport.yaml", "the folder that it is started in"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newWellHost(t)
			dropIn := filepath.Join(filepath.Dir(h.Machine.Host.Paths.Unit()), "teleport.service.d", "z.conf")
			writeFile(t, dropIn, "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport "+tc.command+"\n")
			h.unit.DropIns = []string{dropIn}
			h.executes = "1.0.0" // the linked version waits for a restart
			is, _ := h.state(t)
			r, err := h.Status(t.Context(), StatusOptions{})
			must(t, err)
			said := map[decision.Type]string{}
			for _, c := range r.Conditions {
				said[c.Type] = c.Message
			}
			overruled := said[decision.UnitOverruled]
			if is != decision.NeedsAttention || !strings.Contains(overruled, "no version is changed") || !strings.Contains(overruled, tc.names) {
				t.Errorf("status is %s, and says %q", is, overruled)
			}
			if strings.Contains(overruled, "would fail") || strings.Contains(overruled, "nothing was changed") {
				t.Errorf("status says of the next start: %s", overruled)
			}
			if other := said[decision.AgentOtherVersion]; !strings.Contains(other, "`systemctl restart teleport`") {
				t.Errorf("no restart is advised: %q", other)
			}
		})
	}
}

// A drop-in may make the agent's data read-only for its next process: no restart is advised, and none is made.
func TestNoRestartUnderAUnitThatHidesTheData(t *testing.T) {
	for setting, access := range map[string]systemd.Access{"ProtectSystem=strict": systemd.Writing, "TemporaryFileSystem=/": systemd.Seeing} {
		h := newWellHost(t)
		writeFile(t, h.Machine.Host.Paths.AgentConfig, "teleport: {}\n")
		writeFile(t, h.Machine.Host.Paths.DataDir+"/proc/sqlite.db", "x")
		h.unit.Command = []string{"teleport", "start", "--config=" + h.Machine.Host.Paths.AgentConfig}
		h.unit.Ties.View.Veils = []systemd.Veil{{Path: h.Machine.Host.Paths.DataDir, Setting: setting, Of: access}}
		h.state(t)
		if err := transaction.CheckRestart(t.Context(), h.Machine, h.config); err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: a restart is let through: %v", setting, err)
		}
		h.executes = "1.0.0"
		h.state(t)
		r, err := h.Status(t.Context(), StatusOptions{})
		must(t, err)
		for _, c := range r.Conditions {
			if strings.Contains(c.Message, "`systemctl restart") {
				t.Errorf("%s: %s advises a restart: %s", setting, c.Type, c.Message)
			}
		}
	}
}
