//go:build hosts

package operator

import (
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// The program of the recovery at boot is run before each change of the version. One that is there and does
// not run is either put right first, or the change is refused with the cause; the agent is as it was, and
// status and `--dry-run` say the same.
func TestTheRescuerIsRunBeforeTheFirstChange(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.Wants("1.1.0")
	const copied = "/var/lib/teleport/updater/teleport-update"
	dir := strings.TrimSuffix(copied, "/teleport-update")
	again := "cp -a /root/copy " + copied
	s.Must("cp", "-a", copied, "/root/copy")
	for _, c := range []struct{ name, do, undo, says string }{
		{"a mount without execution", "mount --bind " + dir + " " + dir + "; mount -o remount,bind,noexec " + dir, "umount " + dir, "noexec"},
		{"a mount above it", "mount --bind /var/lib /var/lib; mount -o remount,bind,noexec /var/lib", "umount /var/lib", "noexec"},
		{"a lost mode", "chmod 644 " + copied, "chmod 755 " + copied, "may not be executed"},
		{"nothing in it", ": >" + copied, again, "teleport-update"},
		{"another program", "cp --remove-destination /bin/false " + copied, again, "teleport-update"},
		{"no program", "rm " + copied, again, "missing"},
		{"another user's", "chown daemon " + copied, "chown root " + copied, "another user"},
	} {
		s.Must("sh", "-ec", c.do)
		broken := func(c decision.Condition) bool {
			return c.Type == decision.RecoveryBroken || c.Type == decision.UpdaterBroken
		}
		if r := s.Status(); r.State != decision.NeedsAttention || !slices.ContainsFunc(r.Conditions, broken) {
			t.Errorf("%s: status is %s, %+v", c.name, r.State, r.Conditions)
		}
		if v := s.Try(updater, "verify"); v.Code == 0 || c.says == "noexec" && !strings.Contains(v.Stdout, c.says) {
			t.Errorf("%s: verify ends with %d:\n%s", c.name, v.Code, v.Stdout)
		}
		before := s.Seen()
		dry := s.Try(updater, "update", "--now", "--dry-run")
		r := s.Try(updater, "update", "--now")
		switch runs := s.Try(copied, "version").Code == 0; {
		case r.Code == 0 && !runs:
			t.Errorf("%s: the version was changed without a recovery", c.name)
		case r.Code == 0:
			s.Must(updater, "rollback")
			s.Must(updater, "unpin")
		default:
			// Where the canary finds it first, the words are systemd's.
			names := func(said string) bool {
				return strings.Contains(said, c.says) || strings.Contains(said, "could not be executed")
			}
			if !names(r.Stderr) || dry.Code == 0 || !names(dry.Stderr) {
				t.Errorf("%s: the update ends with %d, the dry run with %d; want %q:\n%s\n%s", c.name, r.Code, dry.Code, c.says, r.Stderr, dry.Stderr)
			}
			if got := before.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("%s: the agent was %s", c.name, got)
			}
		}
		s.Closed()
		s.Linked("1.0.0")
		s.Must("sh", "-ec", c.undo)
	}
	s.Must(updater, "update", "--now")
	s.Serves("1.1.0")
	s.StatusIs("idle")
}

// The first enable on a mount without execution, of the data folder or of the folder of the updater's copy, is refused in systemd's words.
func TestAFirstEnableOnAMountWithoutExecution(t *testing.T) {
	for name, dir := range map[string]string{"the data folder": "/var/lib/teleport", "the updater's folder": "/var/lib/teleport/updater"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.Wants("1.0.0")
			s.Must("sh", "-ec", "mkdir -p -m 700 "+dir+"; mount --bind "+dir+" "+dir+"; mount -o remount,bind,noexec "+dir)
			enable := []string{s.Path, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s"}
			before := s.Tree("/etc", "/opt", "/usr/local")
			if r := s.Try(enable...); r.Code == 0 || !strings.Contains(r.Stderr, "could not be executed") {
				t.Errorf("enable ends with %d:\n%s", r.Code, r.Stderr)
			}
			s.Unchanged(before, s.Tree("/etc", "/opt", "/usr/local"))
			s.Closed()
			s.Must("umount", dir)
			s.Must(enable...)
			s.Must("systemctl", "enable", "--now", "teleport")
			s.Serves("1.0.0")
		})
	}
}

// A change of version needs room in /run for the unit that it runs in: without it the change is refused before anything is
// touched, and `--dry-run` says the same.
func TestAFullRunIsSeenBeforeAChange(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	before := s.Seen()
	// All but 8 MiB: systemd refuses to read unit files again with less than 16.
	s.Must("sh", "-c", `free=$(df --output=avail -k /run | tail -1); head -c $((free - 8192))K /dev/zero >/run/filler`)
	for _, args := range [][]string{{"update", "--now", "--dry-run"}, {"update", "--now"}} {
		if r := s.Try(append([]string{updater}, args...)...); r.Code == 0 || !strings.Contains(r.Stderr, "free some space in /run") {
			t.Errorf("%q ends with %d:\n%s", args, r.Code, r.Stderr)
		}
	}
	s.Tick()
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		t.Errorf("the agent was %s", got)
	}
	s.Linked("1.0.0")
	s.Closed()
	if r := s.Status(); !r.State.Alarming() || !strings.Contains(r.Explanation, "/run") || r.FailedVersion != nil {
		t.Errorf("status is %s: %s; failed: %s", r.State, r.Explanation, scenes.Text(r.FailedVersion))
	}
	s.Must("rm", "/run/filler")
	s.Must(updater, "update", "--now")
	s.Serves("1.1.0")
	s.StatusIs("idle")
}

// A run of the timer that may not look at the agent's process, by a drop-in of a hardening role, takes no
// agent for a dead one: it changes no version, blames none, and restarts nothing.
func TestARunThatMayNotLookAtTheAgentLeavesIt(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	for name, drop := range map[string]string{
		"no right to trace":            "CapabilityBoundingSet=~CAP_SYS_PTRACE\n",
		"processes are invisible":      "CapabilityBoundingSet=~CAP_SYS_PTRACE\nProtectProc=invisible\n",
		"processes cannot be accessed": "CapabilityBoundingSet=~CAP_SYS_PTRACE\nProtectProc=noaccess\nProcSubset=pid\n",
		"a few capabilities":           "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_CHOWN CAP_FOWNER\n",
	} {
		for _, unit := range []string{"teleport-update.service.d", "teleport-update-switch-.service.d"} {
			s.Write("/etc/systemd/system/"+unit+"/95-other.conf", "[Service]\n"+drop)
		}
		s.Must("systemctl", "daemon-reload")
		before := s.Seen()
		s.Wants("1.0.0")
		s.Tick() // nothing to do
		s.Wants("1.1.0")
		s.Tick()
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", name, got)
		}
		s.Linked("1.0.0")
		s.Closed()
		r := s.Status()
		if r.FailedVersion != nil || !r.State.Alarming() || !strings.Contains(r.Explanation, "look") && !strings.Contains(r.Explanation, "permission denied") {
			t.Errorf("%s: status is %s: %s; failed: %s", name, r.State, r.Explanation, scenes.Text(r.FailedVersion))
		}
		s.Must("sh", "-c", "rm /etc/systemd/system/teleport-update*.d/95-other.conf; systemctl daemon-reload")
	}
	if code := s.Tick(); code != 0 {
		t.Errorf("the run that may look ends with %d", code)
	}
	s.Serves("1.1.0")
	s.StatusIs("idle")
}
