//go:build hosts

package database

import (
	"strings"
	"testing"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// users are programs that have the agent's database open: a backup that reads the file, a
// person's shell in the middle of a transaction, and a connection in WAL mode that waits,
// as a replication has one.
var users = map[string]string{
	"reader":      "exec sleep infinity <" + scenes.LiveFile,
	"transaction": "{ echo 'BEGIN; SELECT count(*) FROM sqlite_schema;'; sleep infinity; } | sqlite3 " + scenes.LiveFile,
	"idle":        "{ echo 'SELECT count(*) FROM sqlite_schema;'; sleep infinity; } | sqlite3 " + scenes.LiveFile,
}

// opens returns once the program has the database open.
func (s *scene) opens(user string) {
	s.T.Helper()
	s.Must("systemd-run", "--quiet", "--unit=user-"+user, "sh", "-c", users[user])
	s.Must("sh", "-c", "until for p in $(cat /sys/fs/cgroup/system.slice/user-"+user+".service/cgroup.procs); do readlink /proc/$p/fd/*; done | grep -qx "+scenes.LiveFile+
		"; do sleep 0.05; done")
}

func (s *scene) closes(user string) {
	s.T.Helper()
	s.Must("systemctl", "stop", "user-"+user)
}

// Whoever is connected to the database, or only reads it, while its version is to change.
func TestWhoHasTheDatabaseOpenWhileTheVersionChanges(t *testing.T) {
	s := newScene(t)
	s.migrating("1.0.0", "1.1.0")
	s.Release(release.Spec{Version: "1.2.0", Schema: 3, Variant: stamp.NeverReady})
	s.Writes("wal", 100)
	s.RunsOn("1.0.0", "--health-window", "2s", "--ready-url", "http://127.0.0.1:3000/readyz")
	s.Grows(10)
	s.Updates("1.1.0")

	// A downgrade is refused before the stop, and blames nobody.
	s.opens("idle")
	s.Wants("1.0.0")
	pid := s.PID()
	if said := s.Fails(1, "is refused: ", updater, "update"); !strings.Contains(said, "sqlite3") {
		t.Errorf("the process is not named:\n%s", said)
	}
	if r := s.Status(); s.PID() != pid || r.FailedVersion != nil {
		t.Errorf("the agent runs as %s, before it was %s; the failed version is %s", s.PID(), pid, scenes.Text(r.FailedVersion))
	}
	s.Serves("1.1.0")
	s.closes("idle")

	// Who only reads the file is in nobody's way.
	s.opens("reader")
	s.Wants("1.2.0")
	s.Fails(1, "was not healthy and was rolled back", updater, "update")
	s.Serves("1.1.0")
	s.closes("reader")

	// Who is connected is: the new version stays whole, and no run stops it.
	s.opens("idle")
	s.opens("transaction")
	s.Fails(4, "sqlite3", updater, "update", "--now")
	s.LinkedFiles("1.2.0")
	pid = s.PID()
	for _, end := range []string{"transaction", "idle"} {
		r := s.Status()
		if r.State != "needs_attention" || !strings.Contains(r.Explanation, "sqlite3") {
			t.Errorf("status says %s: %s", r.State, r.Explanation)
		}
		if code := s.Tick(); code != 4 || s.PID() != pid {
			t.Errorf("a tick ends with %d, and the agent runs as %s; before it was %s", code, s.PID(), pid)
		}
		s.LinkedFiles("1.2.0")
		s.closes(end)
	}
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after all are gone ends with %d", code)
	}
	s.Serves("1.1.0")
	s.Whole("the database", s.Live(), 2)
	s.onlyDatabase()
}
