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

// An agent that came onto the host without the updater.
type foreignAgent struct{ BinDir, unitDir string }

var ForeignAgents = map[string]foreignAgent{
	"by hand":      {"/usr/local/bin", "/usr/local/lib/systemd/system"},
	"by a package": {"/usr/bin", "/usr/lib/systemd/system"},
}

// RunForeign installs a release without the updater and starts it.
func (s *Scene) RunForeign(v string, a foreignAgent) {
	s.T.Helper()
	s.Sound(v)
	files := s.T.TempDir()
	tarball := filepath.Join(s.Releases, release.Name(v, version.OSS))
	if out, err := exec.CommandContext(s.T.Context(), "tar", "-xzf", tarball, "-C", files).CombinedOutput(); err != nil {
		s.T.Fatalf("unpack %s: %v\n%s", tarball, err, out)
	}
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		s.Put(filepath.Join(files, "teleport", name), path.Join(a.BinDir, name))
	}
	s.Write(path.Join(a.unitDir, "teleport.service"), release.Unit{LinkDir: a.BinDir, RestartDelay: 300 * time.Millisecond}.Text())
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
