package transaction

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// Status speaks against a start if the active version was proven with other tables, and says nothing of what it does not know. A
// database that cannot be read is neither.
func TestTablesAreHeldAgainstAStartOnlyIfTheyAreKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		agent     state.AgentState
		prepare   func(h *databaseHost)
		says, err string
	}{
		"stopped":                      {state.AgentStopped, nil, "may not be able to start on them: `teleport-update pin VERSION`", ""},
		"failing":                      {state.AgentFailing, nil, "may not be able to start on them: `teleport-update pin VERSION`", ""},
		"running":                      {state.AgentRunning, func(h *databaseHost) { must(t, os.WriteFile(h.path(), []byte("no database"), 0o600)) }, "", ""},
		"unknown":                      {state.AgentUnknown, nil, "", ""},
		"no tables were noted":         {state.AgentStopped, func(h *databaseHost) { h.config.Status.ActiveSchema = "" }, "", ""},
		"not proven":                   {state.AgentStopped, func(h *databaseHost) { h.unproven("1.0.0") }, "", ""},
		"there is no database":         {state.AgentStopped, func(h *databaseHost) { must(t, os.Remove(h.path())) }, "", ""},
		"the tables that were noted":   {state.AgentStopped, func(h *databaseHost) { h.config.Status.ActiveSchema = h.digestNow(t.Context()) }, "", ""},
		"an older version left them":   {state.AgentStopped, func(h *databaseHost) { h.leaves("1.0.0") }, "", ""},
		"the active version left them": {state.AgentStopped, func(h *databaseHost) { h.leaves("1.1.0") }, "", ""},
		"a newer version left them":    {state.AgentStopped, func(h *databaseHost) { h.leaves("1.2.0") }, "`teleport-update pin 1.2.0`", ""},
		"a write was cut off":          {state.AgentStopped, func(h *databaseHost) { writeFile(t, h.path()+"-journal", "x") }, "", ""},
		"it cannot be read": {state.AgentStopped, func(h *databaseHost) { must(t, os.WriteFile(h.path(), []byte("no database"), 0o600)) }, "",
			"whether the agent's database fits version 1.1.0: "},
		"another program is linked": {state.AgentStopped, func(h *databaseHost) {
			link := filepath.Join(h.Host.Paths.LinkDir, host.AgentName)
			_ = os.Remove(link)
			must(t, os.MkdirAll(filepath.Dir(link), 0o755))
			must(t, os.Symlink("/bin/true", link))
		}, "", ""},
	} {
		h := unlike(t)
		h.keeps("1.1.0")
		if tc.prepare != nil {
			tc.prepare(h)
		}
		why, err := CheckTables(t.Context(), h.Machine, h.config, agentIn{h.Machine, tc.agent})
		if (why != nil) != (tc.says != "") || why != nil && !strings.Contains(why.Error(), tc.says) {
			t.Errorf("%s: it says %v; want %q", name, why, tc.says)
		}
		if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: it ends with %v; want %q", name, err, tc.err)
		}
	}
}

// agentIn is a host whose agent is seen in a state.
type agentIn struct {
	*Machine
	state state.AgentState
}

func (a agentIn) Sight(context.Context) (Sight, error) { return Sight{State: a.state}, nil }
