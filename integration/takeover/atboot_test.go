//go:build hosts

package takeover

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
)

// Where /usr/local, or what it leads to, is a file system of its own, systemd reads its units before it is
// mounted: enable takes a folder that is there, every later command knows it, and the host has its
// agent, its timer and its recovery after a boot.
func TestAHostWithUsrLocalApartHasItsAgentAfterABoot(t *testing.T) {
	t.Parallel()
	const apart = "mkdir -p /persist; cp -a D /persist/apart; rm -rf D/* || :; echo '/persist/apart D none bind 0 0' >/etc/fstab"
	for name, layout := range map[string]struct{ first, mount string }{
		"a mount of its own":  {"", "/usr/local"},
		"a link into /var":    {"mv /usr/local /var/usrlocal; ln -s ../var/usrlocal /usr/local", "/var"},
		"its units in /opt":   {"mkdir -p /usr/local/lib/systemd/system; mv /usr/local/lib/systemd /opt/systemd; ln -s /opt/systemd /usr/local/lib/systemd", "/opt"},
		"a folder in it only": {"mkdir -p /usr/local/lib/systemd", "/usr/local/lib/systemd"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Must("sh", "-ec", layout.first+"\n"+strings.ReplaceAll(apart, "D", layout.mount))
			apartHasItsAgentAfterABoot(t, s, layout.mount)
		})
	}
}

func apartHasItsAgentAfterABoot(t *testing.T, s *scene, mount string) {
	reboot := func() {
		t.Helper()
		if err := s.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reboot()
	s.Must("findmnt", mount)
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	s.Enable()
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom(s.Executable("1.0.0"))
	reboot()
	s.RunsFrom(s.Executable("1.0.0"))
	for _, unit := range []string{"teleport.service", "teleport-update.timer", "teleport-update-recover.service"} {
		if got := s.Show(unit, "FragmentPath"); got != "/etc/systemd/system/"+unit {
			t.Errorf("systemd has %s from %q", unit, got)
		}
	}
	if got := s.Show("teleport-update.timer", "ActiveState"); got != "active" {
		t.Errorf("after the boot the timer is %s", got)
	}
	s.Wants("1.1.0")
	s.Must(s.Path, "update", "--now")
	s.RunsFrom(s.Executable("1.1.0"))
	s.Must(s.Path, "verify")
	movesLateDropIn(t, s, mount)
	copiesLinkedDropIn(t, s, mount)
	if got := s.Status().State; got != "idle" {
		t.Errorf("status says %s", got)
	}
	s.Must(s.Path, "uninstall", "--with-agent", "--yes")
	if left := s.Must("find", "-L", "/etc/systemd/system", "/usr/local/lib", "-name", "teleport*", "!", "-type", "d"); left != "" {
		t.Errorf("uninstall leaves %s", left)
	}
}

// Any folder of systemd's will do for units, whatever of its names somebody types: what is the
// updater's own there is no other updater's, and later commands know the folder.
func TestUnitsGoIntoAnyFolderOfSystemd(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"etc": "/etc/systemd/system", "usr": "/usr/lib/systemd/system", "lib": "/lib/systemd/system"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			s.Wants("1.0.0")
			s.Must(s.Path, "--unit-dir", dir, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
			s.Must("systemctl", "enable", "--now", "teleport")
			s.RunsFrom(s.Executable("1.0.0"))
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.RunsFrom(s.Executable("1.0.0"))
			s.Wants("1.1.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the tick ends with %d", code)
			}
			s.RunsFrom(s.Executable("1.1.0"))
			s.Must(s.Path, "verify")
			if got := s.Status().State; got != "idle" {
				t.Errorf("status says %s", got)
			}
			s.Must(s.Path, "uninstall", "--with-agent", "--yes")
			if left := s.Must("find", "/etc/systemd/system", "/usr/lib/systemd/system", "-name", "teleport*", "!", "-type", "d"); left != "" {
				t.Errorf("uninstall leaves %s", left)
			}
		})
	}
}

// A host whose /usr/local got a file system of its own after enable: status and verify say that its
// units would not be read at boot, and the commands that status names put them into a folder that is there. An
// enable that names another folder is refused.
func TestUnitsStayInTheirFolderUntilAnUninstall(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Wants("1.0.0")
	s.Enable()
	s.Must("systemctl", "enable", "--now", "teleport")
	s.RunsFrom(s.Executable("1.0.0"))
	pid := s.Show("teleport.service", "MainPID")
	s.Must("sh", "-ec", "mkdir -p /persist; cp -a /usr/local /persist/usrlocal; mount --bind /persist/usrlocal /usr/local; echo '/persist/usrlocal /usr/local none bind 0 0' >/etc/fstab; systemctl daemon-reload")
	status := s.Status()
	if status.State != "needs_attention" || status.Conditions[0].Type != "units_late" {
		t.Errorf("status says %s, %v", status.State, status.Conditions)
	}
	if r := s.Try(s.Path, "verify"); r.Code == 0 {
		t.Errorf("verify ends well:\n%s", r.Stdout)
	}
	before := s.Tree("/etc/systemd")
	s.Fails(1, "the units of this host are in /usr/local/lib/systemd/system", s.Path, "--unit-dir", "/etc/systemd/system", "enable")
	if changed := before.Diff(s.Tree("/etc/systemd")); len(changed) > 0 {
		t.Errorf("what was refused has changed %q", changed)
	}
	for _, command := range []string{"uninstall", "enable"} {
		if !strings.Contains(status.Conditions[0].Message, "`teleport-update "+command+"`") {
			t.Errorf("status does not name %s: %s", command, status.Conditions[0].Message)
		}
	}
	s.Must(s.Path, "uninstall")
	if got := s.Show("teleport.service", "MainPID"); got != pid {
		t.Errorf("the uninstall restarted the agent: it was process %s and is %s", pid, got)
	}
	s.Enable()
	check := func(when string) {
		t.Helper()
		for _, unit := range []string{"teleport.service", "teleport-update.timer", "teleport-update-recover.service"} {
			if got := s.Show(unit, "FragmentPath"); got != "/etc/systemd/system/"+unit {
				t.Errorf("%s systemd has %s from %q", when, unit, got)
			}
			if got := s.Show(unit, "UnitFileState"); got != "enabled" {
				t.Errorf("%s %s is %s", when, unit, got)
			}
		}
		if got := s.Show("teleport-update.timer", "ActiveState"); got != "active" {
			t.Errorf("%s the timer is %s", when, got)
		}
		s.Must(s.Path, "verify")
		if got := s.Status().State; got != "idle" {
			t.Errorf("%s status says %s", when, got)
		}
	}
	check("after enable")
	if err := s.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.RunsFrom(s.Executable("1.0.0"))
	check("after the boot")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick ends with %d", code)
	}
	s.RunsFrom(s.Executable("1.1.0"))
	check("after an update")
	s.Must(s.Path, "uninstall", "--with-agent", "--yes")
	if left := s.Must("find", "/etc/systemd/system", "-name", "teleport*", "!", "-type", "d"); left != "" {
		t.Errorf("uninstall leaves %s", left)
	}
}

// movesLateDropIn does what status says of an administrator's drop-in in a folder that is mounted after systemd has read its units.
func movesLateDropIn(t *testing.T, s *scene, mount string) {
	const late = "/usr/local/lib/systemd/system/teleport.service.d/50-own.conf"
	if real := strings.TrimSpace(s.Must("readlink", "-f", "/usr/local/lib/systemd")); !strings.HasPrefix(real+"/", mount+"/") {
		return
	}
	s.Must("sh", "-ec", `mkdir -p "${1%/*}"; printf '[Service]\nNice=5\n' >"$1"; systemctl daemon-reload`, "sh", late)
	r := s.Status()
	if r.State != "needs_attention" || !strings.Contains(r.Explanation, "/50-own.conf is behind "+mount+",") {
		t.Fatalf("of a drop-in that the next boot does not find status says %s: %s", r.State, r.Explanation)
	}
	s.Must("sh", "-ec", `d=/etc/systemd/system/teleport.service.d; mkdir -p $d; mv "$1" $d; systemctl daemon-reload`, "sh", late)
	if got := s.Show("teleport.service", "DropInPaths"); !strings.Contains(got, "/etc/systemd/system/teleport.service.d/50-own.conf") || strings.Contains(got, late) {
		t.Errorf("systemd has the drop-ins %q", got)
	}
}

// copiesLinkedDropIn does what status says of an administrator's drop-in that is a link to a file which is mounted after systemd has
// read its units.
func copiesLinkedDropIn(t *testing.T, s *scene, mount string) {
	const link = "/etc/systemd/system/teleport.service.d/60-linked.conf"
	s.Must("sh", "-ec", `mkdir -p "${2%/*}"; printf '[Service]\nNice=6\n' >"$1"; ln -s "$1" "$2"; systemctl daemon-reload`, "sh", mount+"/linked.conf", link)
	r := s.Status()
	if r.State != "needs_attention" || !strings.HasPrefix(r.Explanation, link+" is behind "+mount) {
		t.Fatalf("of a drop-in that leads to a file which the next boot does not find status says %s: %s", r.State, r.Explanation)
	}
	s.Must("sh", "-ec", `cp --remove-destination "$(readlink -f "$1")" "$1"; systemctl daemon-reload`, "sh", link)
	s.Must("rm", mount+"/linked.conf")
	if got := s.Read(link); got != "[Service]\nNice=6\n" || s.Show("teleport.service", "Nice") != "6" {
		t.Errorf("the drop-in has %q, and systemd Nice=%s", got, s.Show("teleport.service", "Nice"))
	}
	s.Must("sh", "-ec", "rm "+link+"; systemctl daemon-reload")
}
