package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// However the unit says where the agent's data are, it decides.
func TestTheUnitDecidesWhereTheAgentHasItsData(t *testing.T) {
	for name, c := range map[string]struct {
		unit, dropIn, environment string
		want                      string // below the root; empty: an error
	}{
		"nothing":                               {"ExecStart=/bin/teleport start", "", "", "usual"},
		"the usual configuration":               {"ExecStart=/bin/teleport start --config ROOT/teleport.yaml", "", "", "usual"},
		"another configuration":                 {"ExecStart=/bin/teleport start -c ROOT/node.yaml", "", "", "node"},
		"joined by =":                           {"ExecStart=/bin/teleport start --config=ROOT/node.yaml", "", "", "node"},
		"a data folder":                         {"ExecStart=/bin/teleport start --config ROOT/node.yaml --data-dir ROOT/flag", "", "", "flag"},
		"a drop-in":                             {"ExecStart=/bin/teleport start", "ExecStart=\nExecStart=/bin/teleport start --data-dir=ROOT/flag", "", "flag"},
		"a variable of the unit":                {"Environment=TELEPORT_CONFIG_FILE=ROOT/node.yaml\nExecStart=/bin/teleport start", "", "", "node"},
		"an environment file":                   {"EnvironmentFile=-ROOT/env\nExecStart=/bin/teleport start", "", "TELEPORT_CONFIG_FILE=ROOT/node.yaml", "node"},
		"options in a file":                     {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start $OPTIONS", "", "OPTIONS='--data-dir ROOT/flag'", "flag"},
		"braces":                                {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start --data-dir=${DIR}", "", "DIR=ROOT/flag", "flag"},
		"a file that is missing":                {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start", "", "", ""},
		"a specifier":                           {"ExecStart=/bin/teleport start --data-dir=%h/teleport", "", "", ""},
		"a relative folder":                     {"ExecStart=/bin/teleport start --data-dir=var/lib/agent", "", "", ""},
		"a relative file":                       {"ExecStart=/bin/teleport start --config=node.yaml", "", "", ""},
		"a folder in the file that is relative": {"ExecStart=/bin/teleport start --config=ROOT/relative.yaml", "", "", ""},
		"a configuration as text":               {"Environment=TELEPORT_CONFIG=dGVsZXBvcnQ6Cg==\nExecStart=/bin/teleport start --config=ROOT/node.yaml", "", "", ""},
		"a text in an environment file":         {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start", "", "TELEPORT_CONFIG=dGVsZXBvcnQ6Cg==", ""},
		"a text as an argument":                 {"ExecStart=/bin/teleport start --config-string=dGVsZXBvcnQ6Cg==", "", "", ""},
		"a text that is taken away":             {"Environment=TELEPORT_CONFIG=dGVsZXBvcnQ6Cg==\nUnsetEnvironment=TELEPORT_CONFIG\nExecStart=/bin/teleport start", "", "", "usual"},
		"short flags that are joined":           {"ExecStart=/bin/teleport start -dcROOT/node.yaml", "", "", "node"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			root := t.TempDir()
			write := func(path, content string) {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "ROOT", root)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h.Paths.UnitDir, h.Paths.AgentConfig = filepath.Join(root, "units"), filepath.Join(root, "teleport.yaml")
			write("teleport.yaml", "teleport: {data_dir: ROOT/usual}")
			write("relative.yaml", "teleport: {data_dir: var/lib/agent}")
			write("node.yaml", "teleport: {data_dir: ROOT/node}")
			write("units/teleport.service", "[Service]\n"+c.unit+"\n")
			if c.dropIn != "" {
				write("units/teleport.service.d/10.conf", "[Service]\n"+c.dropIn+"\n")
			}
			if c.environment != "" {
				write("env", c.environment+"\n")
			}
			got, err := h.Database()
			if c.want == "" {
				if err == nil {
					t.Errorf("it is %s; want an error", got)
				}
				return
			}
			if want := filepath.Join(root, c.want, "proc", "sqlite.db"); err != nil || got != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
	}
}

// What systemd has loaded and what the files say are the same, or no change begins.
func TestAUnitLeadsTheAgentToOnePlace(t *testing.T) {
	for name, c := range map[string]struct {
		file, loaded string // arguments
		stale, runs  bool
		says         string // empty: it is none
	}{
		"the same":                      {file: "--config=/etc/a.yaml", loaded: "-c /etc/a.yaml"},
		"more in the file":              {file: "--config=/etc/a.yaml --data-dir /srv/b", loaded: "-c /etc/a.yaml", runs: true, says: "its files say --config /etc/a.yaml --data-dir /srv/b"},
		"less in the file":              {file: "", loaded: "--data-dir /srv/b", runs: true, says: "loaded the agent's unit with --data-dir /srv/b, and its files say neither"},
		"another in the file":           {file: "--data-dir /srv/a", loaded: "--data-dir /srv/b", says: "one line of ExecStart="},
		"another that is not read":      {file: "--data-dir /srv/a", loaded: "--data-dir /srv/b", stale: true, runs: true, says: "systemctl daemon-reload"},
		"one that is read at the start": {file: "--data-dir /srv/a", loaded: "--data-dir /srv/b", stale: true},
		"a variable":                    {file: "$OPTIONS", loaded: "$OPTIONS --data-dir /srv/b"},
	} {
		h := testHost(t)
		h.Paths.UnitDir = t.TempDir()
		writeFile(t, h.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start "+c.file+"\n")
		u := systemd.Unit{LoadState: "loaded", ActiveState: "inactive", NeedDaemonReload: c.stale, Command: strings.Fields("/bin/teleport start " + c.loaded)}
		if c.runs {
			u.ActiveState, u.SubState = "active", "running"
		}
		err := h.AgentUnit().CheckLoaded(u)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !failure.Is[*failure.RefusedError](err)) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}
