package transaction

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
)

// Whose program was moved is an agent by the database that it has open; what others had systemd start has none.
func TestAnAgentIsKnownAlsoIfItsFolderWasMoved(t *testing.T) {
	programs, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sqlite.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, tc := range map[string]struct {
		pid      int
		program  string
		database string
		want     bool
	}{
		"the new version":      {1, programs + "/bin/teleport", "", true},
		"its folder was moved": {os.Getpid(), "/srv/aside/bin/teleport", path, true},
		"another program":      {os.Getpid(), "/usr/bin/sleep", filepath.Join(t.TempDir(), "other.db"), false},
		"no database is known": {os.Getpid(), "/usr/bin/sleep", "", false},
	} {
		u := &undoing{j: newOpenJournal("", &state.Journal{To: state.Tree{Programs: programs}, Database: state.Database{Path: tc.database}})}
		main := procfs.Process{Exe: tc.program}
		main.PID = tc.pid
		if got := u.isAgent(Sight{Main: main}); got != tc.want {
			t.Errorf("%s: it is an agent: %t", name, got)
		}
	}
}
