//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// What enable is given as the data folder is in force for later commands that do not name it: the timer's unit does.
func TestLaterCommandsKnowTheDataFolder(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	s.Must("sh", "-c", `sed -i 's|^teleport:|&\n  data_dir: /srv/agent|' /etc/teleport.yaml`)
	s.Must(s.Path, "--data-dir", "/srv/agent", "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s",
		"--programs-dir", "/opt/programs")
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Wants("1.1.0")
	s.Must(s.Path, "update", "--now")
	if r := s.Status(); r.State != "idle" || scenes.Text(r.VersionInstalled) != "1.1.0" {
		t.Errorf("status says %s, with version %s", r.State, scenes.Text(r.VersionInstalled))
	}
	s.Must(s.Path, "verify")
	s.Must(s.Path, "rollback")
	s.Must(s.Path, "disable")
	if r := s.Status(); r.State != "disabled" {
		t.Errorf("after disable, status says %s", r.State)
	}
	s.Must(s.Path, "uninstall", "--yes")
	if left := s.Must("find", "/srv/agent", "/usr/local/lib/systemd", "-name", "*update*"); strings.TrimSpace(left) != "" {
		t.Errorf("uninstall leaves %s", left)
	}
}
