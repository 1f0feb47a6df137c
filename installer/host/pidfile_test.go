package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Whom the agent's unit names, and what it may write, is kept; the PID file is the release's.
func TestAPIDFileThatTheAgentCannotWriteIsRefused(t *testing.T) {
	const someone = "12345"
	for name, tc := range map[string]struct {
		user    string
		veil    string // of the view: what makes the release's folder read-only
		mode    os.FileMode
		owner   int // of that folder; 0: who runs the test
		passes  bool
		command string // of the unit that is there, without the words that all have; OWN and RUN are folders
		dropIn  string
		says    string // empty: it is not refused
		makes   bool   // the advice makes a folder
	}{
		"root":                               {command: "--pid-file=OWN/teleport.pid"},
		"root, by number":                    {user: "0"},
		"a user with a PID file of its own":  {user: someone, command: "--pid-file=OWN/teleport.pid", says: "User=12345 of teleport.service is kept"},
		"a user without a PID file":          {user: someone, says: "User=12345 of teleport.service is kept", makes: true},
		"a user that nobody knows":           {user: "no-such-user", says: "User=no-such-user of teleport.service is kept", makes: true},
		"a user with the release's PID file": {user: someone, command: "--pid-file RUN/teleport.pid"},
		"a user with a variable for it":      {user: someone, command: "--pid-file=$FILE", says: "User=12345", makes: true},
		"a user whom modes do not bind":      {user: someone, passes: true},
		"a user with the release's folder":   {user: someone, owner: 12345},
		"root, the folder is another's":      {owner: 12345},
		"a folder for all users":             {user: someone, mode: 0o777},
		"a folder of a group":                {user: someone, mode: 0o775},
		"a view that is read-only":           {veil: "ProtectSystem=strict", says: "ProtectSystem=strict of teleport.service is kept", makes: true},
		"a view, and a PID file that it has": {veil: "ReadOnlyPaths=RUN", command: "--pid-file=OWN/teleport.pid", says: "ReadOnlyPaths=RUN of"},
		"a drop-in that settles it":          {user: someone, dropIn: "ExecStart=\nExecStart=/usr/local/bin/teleport start --pid-file=/run/teleport/teleport.pid"},
		"a drop-in about other things":       {user: someone, dropIn: "User=12345", says: "User=12345", makes: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			run, own := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "own")
			if err := os.MkdirAll(run, 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.mode != 0 {
				if err := os.Chmod(run, tc.mode); err != nil {
					t.Fatal(err)
				}
			}
			if tc.owner != 0 {
				if os.Geteuid() != 0 {
					t.Skip("only root gives folders away")
				}
				if err := os.Chown(run, tc.owner, -1); err != nil {
					t.Fatal(err)
				}
			}
			folders := strings.NewReplacer("OWN", own, "RUN", run)
			command := folders.Replace("/usr/bin/teleport start --config=/etc/teleport.yaml " + tc.command)
			tree := h.release(t, "1.0.0", version.OSS, false)
			writeFile(t, tree.UnitFile(), "[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file="+run+"/teleport.pid\n")
			writeFile(t, h.Paths.Unit(), "[Service]\nExecStart="+command+"\n")
			if tc.dropIn != "" {
				writeFile(t, filepath.Join(h.configDir(), h.Paths.AgentUnit()+".d", "own.conf"), "[Service]\n"+tc.dropIn+"\n")
			}
			u := systemd.Unit{Name: "teleport.service", User: tc.user, PassesModes: tc.passes, Command: strings.Fields(command)}
			if tc.veil != "" {
				u.Ties.View.Veils = []systemd.Veil{{Path: run, Setting: folders.Replace(tc.veil), Of: systemd.Writing}}
			}
			err := CheckPIDFile(h, u, tree)
			if (err == nil) != (tc.says == "") {
				t.Fatalf("%v; want %q", err, tc.says)
			}
			if err == nil {
				return
			}
			text := err.Error()
			for _, part := range []string{folders.Replace(tc.says), "PID file of version 1.0.0, " + run + "/teleport.pid", "nothing was changed", "systemctl edit teleport"} {
				if !strings.Contains(text, part) {
					t.Errorf("%s\ndoes not say %q", text, part)
				}
			}
			if makes := strings.Contains(text, "`RuntimeDirectory=teleport`") && strings.Contains(text, "`PIDFile=/run/teleport/teleport.pid`"); makes != tc.makes {
				t.Errorf("%s\nhas a folder made: %v", text, makes)
			}
			if strings.Contains(tc.command, "OWN") && !strings.Contains(text, "`PIDFile="+own+"/teleport.pid`") {
				t.Errorf("%s\ndoes not name the agent's own PID file", text)
			}
		})
	}
}
