package installer

import "testing"

func TestGroupsOf(t *testing.T) {
	for _, tc := range []struct {
		name, groups string
		want         bool
	}{
		{"in the agent's group", "0::/system.slice/teleport.service\n", true},
		{"below it", "0::/system.slice/teleport.service/sessions/7\n", true},
		{"with controllers of their own", "4:memory:/user.slice\n1:name=systemd:/system.slice/teleport.service\n0::/\n", true},
		{"the updater's own unit", "0::/system.slice/teleport-update.service\n", false},
		{"a switch", "0::/system.slice/teleport-update-switch-abcdefghij.service\n", false},
		{"a switch in a container that another host's agent runs", "0::/system.slice/teleport.service/payload/system.slice/teleport-update-switch-abcdefghij.service\n", false},
		{"a shell of somebody who logged in", "0::/user.slice/user-0.slice/session-3.scope\n", false},
		{"no line at all", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := groupsOf(tc.groups, AgentUnit); got != tc.want {
				t.Errorf("got %v; want %v", got, tc.want)
			}
		})
	}
}
