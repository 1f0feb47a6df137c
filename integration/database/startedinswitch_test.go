//go:build hosts

package database

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// Somebody starts the agent once links and unit are the new version's, and before its database is: it migrates
// the old version's at once. It gets its own all the same.
func TestAnAgentThatSomebodyStartsBeforeItsDatabaseIsThereGetsIt(t *testing.T) {
	const v1, v2 = "1.0.0", "1.1.0"
	s := newScene(t)
	s.Put(s.Program(scenes.Endat), "/root/endat")
	s.migrating(v1, v2)
	s.Writes("wal", 50)
	s.RunsOn(v1, "--health-window", "1s")
	s.Grows(20)
	s.Updates(v2)
	s.Grows(s.Saved(v1).Last)
	s.Updates(v1)
	second := s.Saved(v2)

	starts := fmt.Sprintf(`systemctl start teleport
		for i in $(seq 1 3000); do [ "$(sqlite3 -readonly -cmd '.timeout 10000' %s 'PRAGMA user_version')" = 2 ] && exit 0; sleep 0.01; done
		echo "the agent did not migrate the database" >&2; exit 1`, scenes.LiveFile)
	order, err := json.Marshal(map[string]any{"switch": map[string]any{
		"kind": "rollback", "from": map[string]any{"version": v1, "edition": "oss"},
		"to": map[string]any{"version": v2, "edition": "oss", "sha256": strings.Fields(s.Read(store + "/" + v2 + "/sha256"))[0],
			"dir": store + "/" + v2, "programs": programs + "/" + v2},
	}})
	s.Check(err)
	r, err := s.RunCommand(t.Context(), host.Command{
		Args: []string{"/root/endat", "-do", "phase:switched=" + starts, updater, "switch"}, Stdin: strings.NewReader(string(order)),
	})
	s.Check(err)
	var report scenes.EndatReport
	s.Check(json.Unmarshal([]byte(r.Stdout), &report))
	stopped := strings.Contains(r.Stderr, "somebody started the agent before the database was exchanged")
	if report.ExitCode != 0 || len(report.Held) != 1 || !stopped {
		t.Fatalf("the transaction was held at %v, and ends with %d:\n%s", report.Held, report.ExitCode, r.Stderr)
	}
	s.Serves(v2)
	s.Grows(second.Last)
	live := s.Live()
	s.Whole("v2 again", live, 2)
	s.SameRows(v2, second.Last)
	if live.ByVersion[v1] != second.ByVersion[v1] {
		t.Errorf("v2 again has %v; want no more rows of v1 than %v", live, second)
	}
}
