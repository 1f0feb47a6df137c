//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// The folder of links that enable was given is in force for whatever changes the version later: a person's command, the timer, a
// rollback, and the recovery at boot. A release's unit starts the agent in the usual folder, so a drop-in has to name the other one.
func TestLaterChangesKeepTheFolderOfLinks(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0", "1.2.0")
	s.Wants("1.0.0")
	const links = "/opt/links"
	// Without the drop-in the first enable is undone, names it, and blames no version.
	enable := []string{updater, "--link-dir", links, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL,
		"--health-window", "1s"}
	s.Fails(1, links+"/teleport", enable...)
	s.Closed()
	if r := s.Status(); r.FailedVersion != nil || s.Exists(links+"/teleport") {
		t.Errorf("status is %s: %s; failed: %s", r.State, r.Explanation, scenes.Text(r.FailedVersion))
	}
	s.Write("/etc/systemd/system/teleport.service.d/50-links.conf",
		"[Service]\nExecStart=\nExecStart="+links+"/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid\n")
	on := func(v, after string) {
		t.Helper()
		host.Wait(t, patience, func() error { return s.Executes(programs + "/" + v + "/bin/teleport") })
		s.Answers(v)
		for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
			if got, want := s.Link(links+"/"+name), programs+"/"+v+"/bin/"+name; got != want {
				t.Errorf("after %s the link %s leads to %q; want %q", after, name, got, want)
			}
			if s.Exists(linkDir + "/" + name) {
				t.Errorf("after %s, %s is in the usual folder too", after, name)
			}
		}
		if r := s.Status(); r.State.Alarming() || scenes.Text(r.VersionInstalled) != v || r.FailedVersion != nil {
			t.Errorf("after %s status is %s with %s: %s", after, r.State, scenes.Text(r.VersionInstalled), r.Explanation)
		}
		if out := s.Try(updater, "verify"); out.Code != 0 {
			t.Errorf("after %s verify ends with %d:\n%s%s", after, out.Code, out.Stdout, out.Stderr)
		}
	}

	s.Must(enable...)
	s.Must("systemctl", "enable", "--now", "teleport")
	s.Proven()
	on("1.0.0", "enable")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the run of the timer ends with %d", code)
	}
	on("1.1.0", "a run of the timer")
	s.Must(updater, "rollback")
	on("1.0.0", "a rollback")
	s.Must(updater, "update", "--now")
	on("1.1.0", "an update by hand")

	s.Wants("1.2.0")
	s.MidWatch("1.2.0")
	s.Check(s.Kill())
	s.Check(s.Boot(t.Context()))
	s.Wants("1.1.0")
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.1.0/bin/teleport") })
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q: the recovery did not work on it", got)
	}
	s.Tick()
	s.Closed()
	on("1.1.0", "the recovery at boot")
	if left := strings.TrimSpace(s.Must("find", links, "-name", ".*")); left != "" {
		t.Errorf("%s are left", left)
	}
}
