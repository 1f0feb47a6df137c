package host

import (
	"path/filepath"
	"strings"
	"testing"
)

// Most agents have a configuration without auth_service: none of them is taken for a server by what is absent.
func TestWhatShowsThatAHostRunsServers(t *testing.T) {
	const node = "--config=ROOT/node.yaml"
	for name, tc := range map[string]struct {
		arguments, usual, node, database string
		want                             string // empty: an agent alone
	}{
		"nothing at all":                      {},
		"an agent's configuration":            {arguments: node, node: "ssh_service: {enabled: yes}"},
		"an auth service":                     {arguments: node, node: "auth_service: {enabled: yes}", want: "auth_service in ROOT/node.yaml"},
		"one in the usual place":              {usual: "auth_service: {enabled: yes}", want: "auth_service in ROOT/teleport.yaml"},
		"one where nothing leads":             {arguments: node, usual: "auth_service: {enabled: yes}", node: "version: v3"},
		"a role":                              {arguments: "--roles=auth", want: "--roles=auth in the agent's unit"},
		"a role among others":                 {arguments: "--roles node,proxy", want: "--roles node,proxy in the agent's unit"},
		"joined to its flag":                  {arguments: "-rapp,auth", want: "-r app,auth in the agent's unit"},
		"roles of an agent":                   {arguments: "--roles=node,db,app"},
		"a role that is named alike":          {arguments: "--roles=authority"},
		"the last roles count":                {arguments: "--roles=auth --roles=node"},
		"roles, over another section":         {arguments: "--roles=auth", usual: "auth_service: {enabled: no}", want: "--roles=auth in the agent's unit"},
		"a database":                          {database: "data", want: "ROOT/data/backend/sqlite.db is the database of an auth server"},
		"a database where the unit leads":     {arguments: "--data-dir=ROOT/srv", database: "srv", want: "ROOT/srv/backend/sqlite.db is the"},
		"a database where nothing leads":      {arguments: "--data-dir=ROOT/srv", database: "data"},
		"a database of another time":          {usual: "auth_service: {enabled: no}", database: "data"},
		"a database beside roles of an agent": {arguments: "--roles=node", database: "data"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(t)
			root := filepath.Dir(h.Paths.AgentConfig)
			fill := strings.NewReplacer("ROOT", root).Replace
			writeFile(t, h.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start "+fill(tc.arguments)+"\n")
			if tc.usual != "" {
				writeFile(t, h.Paths.AgentConfig, tc.usual+"\n")
			}
			if tc.node != "" {
				writeFile(t, filepath.Join(root, "node.yaml"), tc.node+"\n")
			}
			if tc.database != "" {
				writeFile(t, filepath.Join(root, tc.database, "backend", "sqlite.db"), "")
			}
			got, err := ConfigurationOn(h).Servers()
			if err != nil || (got == "") != (tc.want == "") || !strings.HasPrefix(got, fill(tc.want)) {
				t.Errorf("%q, %v; want %q", got, err, fill(tc.want))
			}
		})
	}
}

func TestServersThatNobodyCanSeeAreAnError(t *testing.T) {
	for name, arguments := range map[string]string{
		"a path that only systemd knows": "--config=%h/node.yaml", "a file that is no YAML": "--config=ROOT/broken.yaml",
		"a broken file beside a folder": "--config=ROOT/broken.yaml --data-dir=ROOT/data",
	} {
		h := testHost(t)
		root := filepath.Dir(h.Paths.AgentConfig)
		writeFile(t, filepath.Join(root, "broken.yaml"), "auth_service: [")
		writeFile(t, h.Paths.Unit(), "[Service]\nExecStart=/bin/teleport start "+strings.ReplaceAll(arguments, "ROOT", root)+"\n")
		if got, err := ConfigurationOn(h).Servers(); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
