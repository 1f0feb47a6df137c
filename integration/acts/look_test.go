//go:build hosts

package acts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAProcessThatIsGoneHasNoLife: what is read of an agent between two crashes must not look like another process, of which
// the sweeps would say that a tick has started it.
func TestAProcessThatIsGoneHasNoLife(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	for _, c := range []struct {
		name, file string
		lives      bool
	}{
		{"it runs", fmt.Sprint(os.Getpid()), true},
		{"the file is older than the process's end", fmt.Sprint(gone.Process.Pid), false},
		{"the file is empty", "", false},
		{"there is no file, and systemd knows of no process", "none", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Remove(pidFile); c.file != "none" {
				if err := os.WriteFile(pidFile, []byte(c.file+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := exec.Command("sh", "-c", "timeout() { echo 0; }\n"+agentPID+`echo "$life"`)
			script.Env = append(os.Environ(), "PIDFILE="+pidFile)
			said, err := script.Output()
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(string(said))
			if !c.lives && len(words) != 0 || c.lives && (len(words) != 2 || words[0] != c.file) {
				t.Errorf("its life is %q", said)
			}
		})
	}
}
