package survey

import (
	"strings"
	"testing"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

func TestAReloadKeepsWhatTheAgentWasStartedWith(t *testing.T) {
	words := strings.Fields
	const command = "/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid"
	for name, tc := range map[string]struct {
		unit          string // its command
		environment   []string
		uid           int
		runs          string
		runsWith      []string
		differs, lose string
	}{
		"nothing":                           {unit: command, runs: command},
		"another program of the same agent": {unit: command, runs: "/opt/teleport/system/bin/teleport start -c /etc/teleport.yaml"},
		"FIPS is lost":                      {unit: command, runs: command + " --fips", lose: "--fips"},
		"FIPS comes":                        {unit: command + " --fips", runs: command, differs: "adds --fips"},
		"another configuration":             {unit: command, runs: "teleport start --config=/etc/other.yaml", differs: "another value of --config=/etc/other.yaml"},
		"a variable":                        {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"A=2"}, differs: "the variable A"},
		"the same variable":                 {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"B=1", "A=1"}},
		"a variable of the updater's":       {unit: command, runs: command, environment: []string{"TELEPORT_UPDATE_CONFIG_FILE=/x"}},
		"another user":                      {unit: command, runs: command, uid: 7, differs: "runs as user 0, and is started as 7"},
	} {
		t.Run(name, func(t *testing.T) {
			got := pendingOf(systemd.Unit{Command: words(tc.unit), Environment: tc.environment}, tc.uid, procfs.Started{Command: words(tc.runs), Environment: tc.runsWith})
			if lost := strings.Join(got.Loses, " "); lost != tc.lose {
				t.Errorf("it loses %q; want %q", lost, tc.lose)
			}
			if differs := strings.Join(got.Differs, "; "); !strings.Contains(differs, tc.differs) || tc.differs == "" && differs != "" {
				t.Errorf("it differs in %q; want %q", differs, tc.differs)
			}
			if got.Is() != (tc.lose+tc.differs != "") {
				t.Errorf("pending: %v", got)
			}
		})
	}
}
