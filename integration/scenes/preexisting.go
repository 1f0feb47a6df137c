package scenes

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// PreExistingAgent is an agent that came onto the host without the updater: where
// its programs and its unit are.
type PreExistingAgent struct{ BinDir, UnitDir string }

// PreExistingAgents are the ways in which it may have come.
var PreExistingAgents = map[string]PreExistingAgent{
	"by hand":      {"/usr/local/bin", "/usr/local/lib/systemd/system"},
	"by a package": {"/usr/bin", "/usr/lib/systemd/system"},
}

// RunPreExisting installs a release without the updater and starts it.
func (s *Scene) RunPreExisting(v string, a PreExistingAgent) {
	s.T.Helper()
	files := s.unpacked(v)
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		s.Put(filepath.Join(files, name), path.Join(a.BinDir, name))
	}
	s.Write(path.Join(a.UnitDir, "teleport.service"), release.Unit{LinkDir: a.BinDir, RestartDelay: 300 * time.Millisecond}.Text())
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "enable", "--now", "teleport")
	host.Wait(s.T, Patience, func() error {
		if err := s.Executes(a.BinDir + "/teleport"); err != nil {
			return err
		}
		if s.RowsOf(v) == 0 {
			return fmt.Errorf("the agent has not written anything yet")
		}
		return nil
	})
}

// unpacked makes a sound release, and unpacks it.
func (s *Scene) unpacked(v string) (dir string) {
	s.T.Helper()
	s.Sound(v)
	return s.Unpack(v)
}

// Unpack returns a folder outside of the host with the programs of a release.
func (s *Scene) Unpack(v string) (dir string) {
	s.T.Helper()
	dir = s.T.TempDir()
	tarball := filepath.Join(s.Releases, release.Name(v, version.OSS))
	if out, err := exec.CommandContext(s.T.Context(), "tar", "-xzf", tarball, "-C", dir).CombinedOutput(); err != nil {
		s.T.Fatalf("unpack %s: %v\n%s", tarball, err, out)
	}
	return filepath.Join(dir, "teleport")
}
