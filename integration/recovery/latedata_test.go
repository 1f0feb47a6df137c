//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"

	"teleport-update/integration/host"
)

const (
	dataMount = "srv-agent.mount"
	ordering  = "/usr/local/lib/systemd/system/teleport-update-recover.service.d/50-agent-data.conf"
)

// lateData is a host whose agent has its data on a file system of its own, which the
// agent waits for and nothing else does. Beneath it lies what was there before.
func lateData(t *testing.T) *scene {
	s := newScene(t)
	s.Write("/etc/teleport.yaml", "teleport:\n  diag_addr: 127.0.0.1:3000\n  data_dir: /srv/agent\n")
	s.Write("/etc/systemd/system/late.service", "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 3\n")
	s.Write("/etc/systemd/system/"+dataMount, "[Unit]\nDefaultDependencies=no\nRequires=late.service\nAfter=late.service\n"+
		"[Mount]\nWhat=/opt/data\nWhere=/srv/agent\nType=none\nOptions=bind\n")
	s.Write("/etc/systemd/system/teleport.service.d/10-data.conf", "[Unit]\nRequiresMountsFor=/srv/agent\n")
	s.Must("mkdir", "-p", "/srv/agent/proc", "/opt/data")
	s.Must("systemctl", "daemon-reload")
	s.migratingTo("1.1.0")
	if got := s.Show(dataMount, "ActiveState"); got != "active" {
		t.Fatalf("the mount is %s: this test shows nothing", got)
	}
	return s
}

// beneath asserts that nothing was made where the data are not mounted.
func (s *scene) beneath() {
	s.T.Helper()
	// A bind of / has none of the mounts that are on it.
	if names := s.Must("sh", "-ec", "mkdir -p /mnt/bare; mount --bind / /mnt/bare; ls -A /mnt/bare/srv/agent/proc; umount /mnt/bare"); names != "" {
		s.T.Errorf("beneath the mount there is %q", names)
	}
}

// comeAfter has the data come, at boots from now on, once the recovery has such a time, however fast the machine is; or
// after two minutes, if the recovery waits for the data instead.
func (s *scene) comeAfter(time string) {
	s.T.Helper()
	s.Write("/root/late", `end=$(( $(date +%s) + 120 ))
until [ "$(systemctl show --value -p `+time+" "+recoverUnit+`)" != 0 ] || [ $(date +%s) -gt $end ]; do sleep 0.1; done
sleep 0.1
`)
	s.Must("sed", "-i", "s|/bin/sleep 3|/bin/sh /root/late|", "/etc/systemd/system/late.service")
}

func TestARecoveryWaitsForDataThatAreMountedLate(t *testing.T) {
	s := lateData(t)
	s.cutInMidWatch("1.1.0")
	s.recoveredFirst()
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q", got)
	}
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the first tick ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.LiveIn("/srv/agent"), 1)
	s.beneath()
}

// A boot without an open transaction waits for no disk, and mounts none: what mounts the
// agent's data there is the agent's drop-in, which is not ours.
func TestABootWithoutAJournalWaitsForNoDiskAndMountsNone(t *testing.T) {
	s := lateData(t)
	s.cutInMidWatch("1.1.0")
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the first tick ends with %d", code)
	}
	s.Must("rm", "/etc/systemd/system/teleport.service.d/10-data.conf", "/etc/systemd/system/"+dataMount)
	s.Must("systemctl", "disable", "teleport")
	s.comeAfter("ConditionTimestampMonotonic")
	const fstab = "/opt/data /srv/agent none bind,"
	for name, tc := range map[string]struct {
		fstab, unit, state string
	}{
		"nobody mounts them": {unit: "[Mount]\nWhat=/opt/data\nWhere=/srv/agent\nType=none\nOptions=bind\n", state: "inactive"},
		"noauto":             {fstab: fstab + "noauto 0 0\n", state: "inactive"},
		"nofail, and late":   {fstab: fstab + "nofail,x-systemd.requires=late.service 0 0\n", state: "active"},
		// The generator leaves disks out in a container; this is what it writes of one, and
		// without udev it is tried at once.
		"nofail, and missing": {unit: "[Unit]\nDocumentation=man:fstab(5)\n[Mount]\nWhat=/dev/disk/by-label/absent\nWhere=/srv/agent\n" +
			"Options=nofail\n[Install]\nWantedBy=local-fs.target\n", state: "failed"},
	} {
		s.Must("rm", "-f", "/etc/systemd/system/"+dataMount, "/etc/systemd/system/local-fs.target.wants/"+dataMount)
		s.Write("/etc/fstab", tc.fstab)
		if tc.unit != "" {
			s.Write("/etc/systemd/system/"+dataMount, tc.unit)
		}
		s.Must("systemctl", "daemon-reload")
		s.Try("systemctl", "enable", dataMount)
		if err := s.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, property := range []string{"After", "Requires", "Wants", "BindsTo", "RequiresMountsFor"} {
			if got := s.Show(recoverUnit, property); s.Exists(ordering) || strings.Contains(got, dataMount) || strings.Contains(got, "/srv/agent") {
				t.Errorf("%s: at a boot without a journal, %s of the recovery is %s", name, property, got)
			}
		}
		if got := s.Show(dataMount, "ActiveState"); got != tc.state {
			t.Errorf("%s: the mount is %s; want %s", name, got, tc.state)
		}
		// What is late comes after it.
		asked, up := s.monotonic(recoverUnit, "ConditionTimestampMonotonic"), s.monotonic(dataMount, "ActiveEnterTimestampMonotonic")
		if asked == 0 || up != 0 && asked >= up || s.Show(recoverUnit, "ConditionResult") != "no" {
			t.Errorf("%s: the recovery was looked at after %d µs, the mount was up after %d µs", name, asked, up)
		}
	}
}

const recoverUnit = "teleport-update-recover.service"

// monotonic is a time of a unit's, in microseconds of this boot's clock; 0: never.
func (s *scene) monotonic(unit, property string) (at int64) {
	s.T.Helper()
	if _, err := fmt.Sscan(s.Show(unit, property), &at); err != nil {
		s.T.Fatalf("%s of %s: %v", property, unit, err)
	}
	return at
}

// The order is a help. Where it is not there, the recovery looks, and leaves all of it
// to the first tick.
func TestARecoveryBeforeTheDataAreThereTouchesNothing(t *testing.T) {
	s := lateData(t)
	s.MidWatch("1.1.0")
	s.Must("rm", ordering)
	s.comeAfter("ExecMainExitTimestampMonotonic")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.1.0/bin/teleport") })
	if log := s.Log("teleport-update-recover.service"); !strings.Contains(log, "what goes back is not there yet") {
		t.Fatalf("the recovery found the data: this test shows nothing\n%s", log)
	}
	s.LinkedFiles("1.1.0")
	s.beneath()
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the first tick ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.LiveIn("/srv/agent"), 1)
	s.beneath()
}

// A disk that is gone for good holds up the boot no longer than systemd waits for it,
// and the transaction stays open until it is there again.
func TestADiskThatDoesNotComeBackIsWaitedForAndNothingIsRestoredElsewhere(t *testing.T) {
	s := lateData(t)
	s.MidWatch("1.1.0")
	s.Must("sed", "-i", "s|/bin/sleep 3|/bin/false|", "/etc/systemd/system/late.service")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.LinkedFiles("1.1.0")
	if code := s.Tick(); code != 4 {
		t.Errorf("a tick without the data ends with %d", code)
	}
	s.LinkedFiles("1.1.0")
	s.beneath()
	s.Must("sed", "-i", "s|/bin/false|/bin/true|", "/etc/systemd/system/late.service")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", dataMount)
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick with the data ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.LiveIn("/srv/agent"), 1)
}
