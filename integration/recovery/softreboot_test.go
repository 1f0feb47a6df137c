//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// A soft reboot starts all units again and keeps the kernel, its boot id and /run. systemd 252 of
// the other hosts knows none; 254 does not count them, as 257 does.
func softScene(t *testing.T, suite string) *scene {
	return &scene{scenes.On(t, host.Options{Suite: suite})}
}

// In the middle of a transaction it is what a boot is: the recovery puts the files back before the
// agent starts, and the next run closes the transaction.
func TestASoftRebootInAnyPhaseIsRecoveredAsABoot(t *testing.T) {
	for _, tc := range []struct {
		suite, phase string
		forced       bool
	}{
		{"trixie", "begun", false}, {"trixie", "switched", true}, {"trixie", "rolling_back", false}, {"trixie", "restored", true},
		{host.Backports, "begun", true}, {host.Backports, "switched", false}, {host.Backports, "rolling_back", true}, {host.Backports, "restored", false},
	} {
		t.Run(fmt.Sprintf("%s, %s, forced %v", tc.suite, tc.phase, tc.forced), func(t *testing.T) {
			s := softScene(t, tc.suite)
			s.RecoversKilled()
			s.Release(release.Spec{Version: "1.0.0", Schema: 1})
			bad := release.Spec{Version: "1.1.0", Schema: 2}
			if tc.phase == "rolling_back" || tc.phase == "restored" {
				bad.Variant = stamp.MigratesThenExits
			}
			s.Release(bad)
			s.RunsOn("1.0.0")
			s.Heavy()
			rows := s.Live()
			s.Wants("1.1.0")
			noMore := s.WatchesLast()
			update := s.Background(host.Command{Args: []string{updater, "update"}})
			s.Reaches(update, tc.phase)
			s.Signals(syscall.SIGSTOP)
			noMore()
			boot := s.Must("cat", "/proc/sys/kernel/random/boot_id")
			s.Check(s.SoftReboot(t.Context(), tc.forced))
			if now := s.Must("cat", "/proc/sys/kernel/random/boot_id"); now != boot {
				t.Fatalf("the boot id was %s and is %s: this is no soft reboot", boot, now)
			}

			host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
			s.LinkedFiles("1.0.0")
			if phase := s.Phase(); phase != "" {
				if phase != "restored" {
					t.Errorf("after the soft reboot the journal says %q", phase)
				}
				if tc.phase != "restored" {
					s.recoveredFirst()
				}
				if r := s.Status(); r.State != decision.NeedsAttention || r.OpenTransaction == nil {
					t.Errorf("status with an open transaction: %s, %s", r.State, r.Explanation)
				}
			}
			s.nothingOfTheTransactionRuns()
			from := s.Seen()
			s.Wants("1.0.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the first tick ends with %d", code)
			}
			s.Serves("1.0.0")
			if got := from.Became(s.Seen()); got != scenes.InPeace {
				t.Errorf("the agent was %s by the tick that closes the transaction", got)
			}
			s.Whole("the database", s.Live(), 1)
			s.Lost(rows, "1.0.0")
			s.Tidy()
			s.Must(updater, "verify")
			if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" && r.FailedVersion == nil {
				t.Errorf("status: %s, last result %s, %s", r.State, scenes.Text(r.LastResult), scenes.Text(r.LastError))
			}
		})
	}
}

// nothingOfTheTransactionRuns asserts that systemd has forgotten the transaction's own unit and that
// nothing else failed.
func (s *scene) nothingOfTheTransactionRuns() {
	s.T.Helper()
	for _, states := range []string{"--state=failed", "--state=active,activating,deactivating"} {
		units := s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", states)
		if strings.Contains(units, "teleport-update-switch-") || states == "--state=failed" && units != "" {
			s.T.Errorf("units with %s after the soft reboot:\n%s", states, units)
		}
	}
}

// What a person had started by hand systemd does not start again, and neither does the recovery.
func TestWhatWasStartedByHandStaysDownAfterASoftReboot(t *testing.T) {
	for suite, forced := range map[string]bool{"trixie": false, host.Backports: true} {
		t.Run(fmt.Sprintf("%s, forced %v", suite, forced), func(t *testing.T) {
			s := softScene(t, suite)
			s.Release(release.Spec{Version: "1.0.0", Schema: 2})
			s.Release(release.Spec{Version: "1.1.0", Schema: 2})
			s.RunsOn("1.0.0")
			s.Write("/etc/systemd/system/with.service", "[Unit]\nPartOf=teleport.service\nAfter=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\n")
			s.Must("systemctl", "start", "with")
			s.Must("systemctl", "disable", "teleport")
			s.Wants("1.1.0")
			s.MidWatch("1.1.0")
			s.Check(s.SoftReboot(t.Context(), forced))
			s.Wants("1.0.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the tick that closes the transaction ends with %d", code)
			}
			s.Linked("1.0.0")
			s.Down("after the tick")
			if got := s.Show("with", "ActiveState"); got != "inactive" {
				t.Errorf("the unit that was started by hand is %s", got)
			}
		})
	}
}

// As after a boot, a version that was not proven is not watched once more.
func TestASoftRebootWithoutTheRepairAtBoot(t *testing.T) {
	s := softScene(t, host.Backports)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0")
	rows := s.Live()
	s.Wants("1.1.0")
	s.MidWatch("1.1.0")
	s.Must("systemctl", "mask", "--now", "teleport-update-recover.service")
	s.Check(s.SoftReboot(t.Context(), true))
	s.Watched("1.1.0")
	s.Must("systemctl", "unmask", "teleport-update-recover.service")
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that closes the transaction ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Lost(rows, "1.0.0")
	if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
		t.Errorf("status: last result %s, failed %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion))
	}
}
