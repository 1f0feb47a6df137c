package survey

import (
	"os"
	"path/filepath"
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
		unset         []string
		literal       bool
		file          string // what an environment file has
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
		"words of a variable":               {unit: command + " $OPTIONS", runs: command + " --fips --debug", file: "OPTIONS=--fips --debug"},
		"words of a variable change":        {unit: command + " $OPTIONS", runs: command + " --debug", file: "OPTIONS=--fips --debug", differs: "adds --fips"},
		"words of no variable":              {unit: command + " $OPTIONS", runs: command},
		"a part of a word":                  {unit: command + " --roles=${ROLES}", runs: command + " --roles=node,app", environment: []string{"ROLES=node,app"}, runsWith: []string{"ROLES=node,app"}},
		"a variable of systemd's":           {unit: command + " --data-dir=${HOME}/data", runs: command + " --data-dir=/root/data", runsWith: []string{"HOME=/root"}},
		"a dollar that stays":               {unit: command + " --token=$A", runs: command + " --token=$A", environment: []string{"A=1"}, runsWith: []string{"A=1"}, literal: true},
		"a file wins":                       {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"A=2"}, file: "A=2"},
		"a file wins from the next start":   {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"A=1"}, file: "A=2", differs: "the variable A"},
		"a variable is taken out":           {unit: command, runs: command, environment: []string{"A=1"}, unset: []string{"A"}},
		"a variable will be taken out":      {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"A=1"}, unset: []string{"A=1"}, differs: "the variable A"},
		"another value would be taken out":  {unit: command, runs: command, environment: []string{"A=1"}, runsWith: []string{"A=1"}, unset: []string{"A=2"}},
		"another user":                      {unit: command, runs: command, uid: 7, differs: "runs as user 0, and is started as 7"},
	} {
		t.Run(name, func(t *testing.T) {
			u := systemd.Unit{Command: words(tc.unit), Literal: tc.literal, Environment: tc.environment, UnsetEnvironment: tc.unset}
			u.EnvironmentFiles = []string{filepath.Join(t.TempDir(), "default")}
			if err := os.WriteFile(u.EnvironmentFiles[0], []byte(tc.file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got := pendingOf(u, tc.uid, procfs.Started{Command: words(tc.runs), Environment: tc.runsWith})
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

func TestNothingIsPendingOfFilesThatNobodyCanRead(t *testing.T) {
	u := systemd.Unit{Command: strings.Fields("teleport start $OPTIONS"), EnvironmentFiles: []string{filepath.Join(t.TempDir(), "gone")}}
	runs := procfs.Started{Command: strings.Fields("teleport start --fips")}
	if got := pendingOf(u, 0, runs); got.Is() {
		t.Errorf("pending: %v", got)
	}
	u.EnvironmentFiles[0] = "-" + u.EnvironmentFiles[0]
	if got := pendingOf(u, 0, runs); !got.Is() {
		t.Error("a file that may be missing counts")
	}
}
