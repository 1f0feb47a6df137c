package installer

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
)

// The agent that runs has read its configuration before somebody broke the file, and does not notice. No start is advised: the next
// process could not read the file.
func TestNoStartIsAdvisedUnderAConfigurationThatCannotBeRead(t *testing.T) {
	down := func(h *wellHost) { h.unit.ActiveState, h.unit.SubState, h.executes = "inactive", "dead", "" }
	for content, helps := range map[string]bool{
		"teleport:\n  proxy_server: example.com\n":    true,
		"teleport:\n\tproxy_server: example.com\n":    false,
		"teleport:\n  proxy_server: \"example.com\n":  false,
		"teleport:\n  proxy_server: [example.com]\n":  false,
		"teleport:\n  data_dir: {somewhere: here}\n#": false,
	} {
		for name, tc := range map[string]struct {
			breaks func(h *wellHost)
			by     decision.Type
			start  string
		}{
			"another version runs": {func(h *wellHost) { h.executes = "1.0.0" }, decision.AgentOtherVersion, "`systemctl restart teleport`"},
			"down":                 {down, decision.AgentDown, "`systemctl start teleport`"},
			"stopped by a person": {func(h *wellHost) {
				down(h)
				h.unit.UnitFileState = "disabled"
			}, decision.AgentNotStarted, "`systemctl enable --now teleport`"},
			"masked": {func(h *wellHost) {
				down(h)
				h.unit.LoadState, h.unit.UnitFileState, h.unit.FragmentPath, h.unit.ExecStart = "masked", "masked", "/dev/null", ""
				h.unit.Command = nil
			}, decision.AgentNotStarted, "`systemctl enable --now teleport`"},
		} {
			h := newWellHost(t)
			config := h.Machine.Host.Paths.AgentConfig
			writeFile(t, config, content)
			h.unit.Command = []string{"teleport", "start", "--config=" + config, "--data-dir=" + h.Machine.Host.Paths.DataDir}
			tc.breaks(h)
			h.state(t)
			_, said := statusSays(t, h.Installer, tc.by)
			if strings.Contains(said, tc.start) != helps || strings.Contains(said, config) == helps {
				t.Errorf("%s, with the configuration %q: status says %q of %s; want the advice %s: %v", name, content, said, tc.by, tc.start, helps)
			}
		}
	}
}
