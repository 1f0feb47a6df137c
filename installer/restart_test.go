package installer

import (
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/internal/version"
)

// A restart starts the linked version. No condition advises it while the agent runs a program that may have changed its
// database to one that the linked version cannot read.
func TestNoRestartIsAdvisedOfAnAgentThatMayHaveMigratedItsDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		executes string
		kept     bool
		says     string
	}{
		"a newer version":        {"1.2.0", false, "do not restart it: version 1.2.0 may have changed its database"},
		"a newer one, kept":      {"1.2.0", true, "`teleport-update pin 1.2.0` links the version that runs"},
		"a program of no folder": {"../teleport", false, "do not restart it before it is known that its database fits version 1.1.0"},
	} {
		for _, enabled := range []bool{true, false} {
			h := newWellHost(t)
			releases := []version.Release{{Version: "1.1.0", Edition: version.Enterprise}}
			if tc.kept {
				whole(t, h.Installer, append(releases, version.Release{Version: tc.executes, Edition: version.Enterprise})...)
			}
			h.config.Spec.Enabled, h.executes = enabled, tc.executes
			h.unit.Command, h.unit.User = []string{"teleport", "start"}, "0"
			proc := filepath.Join(h.Processes.Proc, "4711")
			writeFile(t, filepath.Join(proc, "cmdline"), "teleport\x00start\x00--fips\x00")
			writeFile(t, filepath.Join(proc, "environ"), "")
			_, types := h.state(t)
			r, err := h.Status(t.Context(), StatusOptions{Offline: true})
			must(t, err)
			told := 0
			for _, c := range r.Conditions {
				if c.Type != decision.RestartPending && c.Type != decision.AgentOtherVersion {
					continue
				}
				told++
				if !strings.Contains(c.Message, tc.says) || strings.Contains(c.Message, "--restart") || strings.Contains(c.Message, "systemctl restart") {
					t.Errorf("%s, enabled %v: %s says %q; want %q", name, enabled, c.Type, c.Message, tc.says)
				}
			}
			if told != 2 {
				t.Errorf("%s, enabled %v: the host has the conditions %v", name, enabled, types)
			}
		}
	}
}
