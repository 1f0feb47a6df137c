//go:build hosts

package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// An image build or a container: no systemd, so nobody restarts an agent.
func TestAPlainContainerHasEverythingButTheRestart(t *testing.T) {
	s := sceneOn(t, host.Options{Plain: true})
	s.Sound("1.0.0", "1.1.0")
	before := s.Tree(scenes.TheHost...)
	says := func(what string, args ...string) {
		t.Helper()
		r := s.Try(append([]string{updater}, args...)...)
		if r.Code != 0 || !strings.Contains(r.Stderr+r.Stdout, what) {
			t.Errorf("%v: exit code %d, want 0, and %q in:\n%s%s", args, r.Code, what, r.Stdout, r.Stderr)
		}
	}

	s.Wants("1.0.0")
	says("the agent is not restarted", "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
	s.Linked("1.0.0")
	s.StatusIs("waiting") // for systemd
	if r := s.Status(); !r.Unproven || !r.UpdatesEnabled {
		t.Errorf("status: unproven %v, enabled %v", r.Unproven, r.UpdatesEnabled)
	}
	for _, link := range []string{"timers.target.wants/teleport-update.timer", "multi-user.target.wants/teleport-update-recover.service"} {
		if got := s.Link("/etc/systemd/system/" + link); !strings.HasPrefix(got, "/usr/local/lib/systemd/system/teleport-update") {
			t.Errorf("%s leads to %q: the image would boot without it", link, got)
		}
	}

	s.Wants("1.1.0")
	says("the agent is not restarted", "update")
	s.Linked("1.1.0")
	says("is active and wanted", "update")
	says("other checks: ok", "verify")
	says("not restarted: systemd is not running", "rollback", "--dry-run")
	says("version is active version=1.0.0", "rollback")
	s.Linked("1.0.0")
	s.StatusIs("held")
	says("the host is held", "update")
	says("version is active version=1.1.0", "update", "--now")
	s.Linked("1.1.0")
	says("the version is pinned", "pin")
	says("follows the cluster again", "unpin")
	says("updates are disabled", "disable")
	s.StatusIs("disabled")

	says("the updater is uninstalled", "uninstall", "--with-agent")
	s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
	if names, err := s.Names("/var/lib"); err != nil || slices.Contains(names, "teleport") {
		t.Errorf("a folder that the updater made is left: %v, %v", names, err)
	}
}

// In a container the agent runs without systemd, and the updater must not pull
// its database from under it.
func TestAPlainContainersAgentIsLeftAlone(t *testing.T) {
	s := sceneOn(t, host.Options{Plain: true})
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	s.Enable()
	agent := s.Background(host.Command{Args: []string{"sh", "-c",
		"exec " + linkDir + "/teleport start --config /etc/teleport.yaml --pid-file /run/teleport.pid >/var/log/teleport.log 2>&1"}})
	s.Answers("1.0.0")
	s.Grows(0)

	s.Wants("1.1.0")
	s.Must(updater, "update")
	s.Linked("1.1.0")
	s.Answers("1.0.0")
	s.Fails(1, "is open in another process", updater, "rollback")
	s.Linked("1.1.0")
	if r := s.Status(); r.State == decision.NeedsAttention {
		t.Errorf("status after a refused rollback: %s, %s", r.State, r.Explanation)
	}
	if s.RowsOf("1.0.0") == 0 {
		t.Errorf("the agent's rows are gone")
	}

	s.Must("sh", "-c", "kill -HUP $(cat /run/teleport.pid)")
	s.Answers("1.1.0")
	s.Ends(agent, 0)
}
