package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// However the unit says where the agent's data are, it decides.
func TestTheUnitDecidesWhereTheAgentHasItsData(t *testing.T) {
	for name, c := range map[string]struct {
		unit, dropIn, environment string
		want                      string // below the root; empty: an error
	}{
		"nothing":                 {"ExecStart=/bin/teleport start", "", "", "usual"},
		"the usual configuration": {"ExecStart=/bin/teleport start --config ROOT/teleport.yaml", "", "", "usual"},
		"another configuration":   {"ExecStart=/bin/teleport start -c ROOT/node.yaml", "", "", "node"},
		"joined by =":             {"ExecStart=/bin/teleport start --config=ROOT/node.yaml", "", "", "node"},
		"a data folder":           {"ExecStart=/bin/teleport start --config ROOT/node.yaml --data-dir ROOT/flag", "", "", "flag"},
		"a drop-in":               {"ExecStart=/bin/teleport start", "ExecStart=\nExecStart=/bin/teleport start --data-dir=ROOT/flag", "", "flag"},
		"a variable of the unit":  {"Environment=TELEPORT_CONFIG_FILE=ROOT/node.yaml\nExecStart=/bin/teleport start", "", "", "node"},
		"an environment file":     {"EnvironmentFile=-ROOT/env\nExecStart=/bin/teleport start", "", "TELEPORT_CONFIG_FILE=ROOT/node.yaml", "node"},
		"options in a file":       {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start $OPTIONS", "", "OPTIONS='--data-dir ROOT/flag'", "flag"},
		"braces":                  {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start --data-dir=${DIR}", "", "DIR=ROOT/flag", "flag"},
		"a file that is missing":  {"EnvironmentFile=ROOT/env\nExecStart=/bin/teleport start", "", "", ""},
		"a specifier":             {"ExecStart=/bin/teleport start --data-dir=%S/teleport", "", "", ""},
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
