package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

// Each command that changes something changes nothing in a dry run, whatever is in the store; without it, the
// history says who did it, why, and from which revision to which.
func TestADryRunWritesNothingAndAChangeIsInTheHistory(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 4, "staging": 2, "prod": 2})
	write(t, filepath.Join(s.dir, "groups.yaml"), schedule)
	path := filepath.Join(s.dir, "store", "store.db")
	kept, err := store.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	everything := func() string {
		t.Helper()
		items, at, err := kept.List(t.Context(), "")
		records, historyErr := kept.History(t.Context(), 1000)
		if err != nil || historyErr != nil {
			t.Fatal(err, historyErr)
		}
		text, err := json.Marshal([]any{items, at, records})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	newest := func() adminapi.HistoryEntry {
		t.Helper()
		var h adminapi.History
		if err := json.Unmarshal([]byte(s.run("history -o json")), &h); err != nil {
			t.Fatal(err)
		}
		for _, r := range h.Records { // the newest first
			if r.Who != driver.EngineName {
				return r
			}
		}
		t.Fatal("nobody has done anything")
		panic("unreachable")
	}
	for _, step := range []struct {
		command, key, what string
		pass               time.Duration
	}{
		{"apply -f groups.yaml", "autoupdate_config", "apply: mode enabled, spec.agents.strategy, spec.agents.schedules.regular", 0},
		{"set-version 15.2.0 --start 15.1.1", "autoupdate_version", "apply: start version 15.1.1, target 15.2.0, schedule regular", 10 * time.Minute},
		{"mode suspended", "autoupdate_config", "apply: mode enabled → suspended", 0},
		{"mode disabled", "autoupdate_config", "apply: mode suspended → disabled", 0},
		{"mode enabled", "autoupdate_config", "apply: mode disabled → enabled", 0},
		{"rollout start dev --force", "autoupdate_agent_rollout", "rollout start --force dev", 0},
		{"rollout done dev", "autoupdate_agent_rollout", "rollout done dev", 0},
		{"rollout back dev", "autoupdate_agent_rollout", "rollout back dev", 0},
		{"rollout start dev", "autoupdate_agent_rollout", "rollout start dev", 0},
		{"rollout back", "autoupdate_agent_rollout", "rollout back", 0}, // halts the others
		{"rollout retry staging", "autoupdate_agent_rollout", "rollout retry staging", 0},
		{"rollout reset", "autoupdate_agent_rollout", "rollout reset", 0},
		{"token revoke-host " + s.hosts["dev-1"].id, "agents/host/", "token revoke-host " + s.hosts["dev-1"].id, 0},
		{"token add more", "agents/", "token add more", 0},
		{"token revoke more", "agents/", "token revoke more", 0},
		{"token add ci --role viewer", "", "token add ci, viewer", 0},
		{"token revoke --access ci", "", "token revoke --access ci", 0},
		{"set-version --newest", "autoupdate_version", "set-version --newest", 0},
	} {
		before := everything()
		out := s.run(step.command + " --dry-run")
		if now := everything(); now != before {
			t.Errorf("%s --dry-run has changed the store; it says\n%s", step.command, out)
		}
		if strings.Contains(out, "exit code") {
			t.Errorf("%s --dry-run:\n%s", step.command, out)
		}
		reason := "for " + step.command
		out = s.run(step.command + " --reason " + reason)
		if strings.Contains(out, "exit code") || everything() == before {
			t.Errorf("%s has changed nothing:\n%s", step.command, out)
			continue
		}
		r := newest()
		if r.Why != reason || !strings.HasPrefix(r.Who, "uid ") || r.Time.IsZero() || r.What != step.what || !strings.HasPrefix(r.Key, step.key) || r.From == r.To {
			t.Errorf("%s is in the history as %+v", step.command, r)
		}
		if step.pass > 0 {
			s.pass(step.pass)
		}
	}
}
