//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

// A host's limits for all services (service.d) rank above a unit's own file. Here they give a service two seconds, and those of the
// system and the agent are spared: neither the recovery at boot nor a run nor a transaction, which take longer, is ended by them.
func TestLimitsForAllServicesEndNoUndoing(t *testing.T) {
	s := newScene(t)
	s.migratingTo("1.1.0")
	for dir, limit := range map[string]string{"service.d": "2", "systemd-.service.d": "infinity", "teleport.service.d": "infinity"} {
		s.Write("/etc/systemd/system/"+dir+"/50-host.conf", strings.ReplaceAll("[Service]\nTimeoutStartSec=N\nTimeoutStopSec=N\nRuntimeMaxSec=N\n", "N", limit))
	}
	s.Write("/etc/systemd/system/teleport-update-.service.d/50-host.conf", "[Unit]\nJobRunningTimeoutSec=2\n")
	s.Must("systemctl", "daemon-reload")
	s.MidWatch("1.1.0")
	const slowly = "[Service]\nExecStart=\nExecStart=/bin/sh -c 'sleep 3; exec %s %s'\n"
	s.Write("/etc/systemd/system/teleport-update-recover.service.d/50-slow.conf", fmt.Sprintf(slowly, updater, "recover --boot"))
	s.Write("/etc/systemd/system/teleport-update.service.d/50-slow.conf", fmt.Sprintf(slowly, updater, "update"))
	time.Sleep(3 * time.Second) // the transaction goes on for longer than a host's limit
	s.Check(s.Kill())
	s.Check(s.Boot(t.Context()))
	s.recoveredFirst()
	if got, phase := s.Show("teleport-update-recover.service", "Result"), s.Phase(); got != "success" || phase != "restored" {
		t.Errorf("the recovery at boot: %s, and the journal says %q", got, phase)
	}
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("a run of the timer ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
	s.Must("sh", "-c", "rm /etc/systemd/system/*/50-slow.conf; systemctl daemon-reload")
	s.Updates("1.1.0")
}

// systemd tells the recovery at boot to end while it undoes a version, as after a limit of its unit: it goes on until all is back.
func TestAnUndoingAtBootGoesOnWhenToldToEnd(t *testing.T) {
	s := newScene(t)
	s.migratingTo("1.1.0")
	s.Heavy()
	s.MidWatch("1.1.0")
	s.Write("/root/told.sh", `#!/bin/sh
`+updater+` recover --boot & p=$!
until grep -q '"phase": "rolling' `+store+`/journal.json; do kill -0 $p || break; done
kill -TERM $p && echo told to end in the middle
wait $p
`)
	s.Must("chmod", "755", "/root/told.sh")
	s.Write("/etc/systemd/system/teleport-update-recover.service.d/50-test.conf", "[Service]\nExecStart=\nExecStart=/root/told.sh\n")
	s.Check(s.Kill())
	s.Check(s.Boot(t.Context()))
	s.recoveredFirst()
	if log := s.Log("teleport-update-recover.service"); !strings.Contains(log, "told to end in the middle") {
		t.Fatalf("it was over before it was told to end, and the test shows nothing:\n%s", log)
	}
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q:\n%s", got, s.Log("teleport-update-recover.service"))
	}
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	s.Whole("the database", s.Live(), 1)
}

// A drop-in whose name sorts after the updater's has the last word: no version is changed, and the limit is named with its file.
func TestALimitThatSortsLaterIsNamedBeforeAChange(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Proven()
	s.Wants("1.1.0")
	for _, tc := range []struct{ file, setting, says string }{
		{"/etc/systemd/system/service.d/zzzzz-host.conf", "[Service]\nTimeoutStopSec=5\n", "TimeoutStopSec=5s"},
		{"/etc/systemd/system/service.d/zzzzz-host.conf", "[Unit]\nJobRunningTimeoutSec=1min\n", "JobRunningTimeoutSec=1m0s"},
		{"/etc/systemd/system/teleport-update-recover.service.d/zzzzz.conf", "[Service]\nLimitCPU=10\n", "LimitCPU=10s"},
		{"/etc/systemd/system/teleport-update.service.d/zzzzz.conf", "[Service]\nTimeoutStopSec=5\n", "TimeoutStopSec=5s"},
		{"/etc/systemd/system/teleport-update-switch-.service.d/zzzzz.conf", "[Service]\nRuntimeMaxSec=1min\n", "RuntimeMaxSec=1m0s"},
	} {
		s.Write(tc.file, tc.setting)
		s.Must("systemctl", "daemon-reload")
		before := s.Seen()
		s.Fails(1, tc.says+" in "+tc.file, updater, "update", "--now")
		s.Linked("1.0.0")
		s.Closed()
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", tc.setting, got)
		}
		if r := s.Status(); !strings.Contains(tc.file, "switch") && (r.State != decision.NeedsAttention || !strings.Contains(r.Explanation, tc.says+" in "+tc.file)) {
			t.Errorf("%s: status is %s: %s", tc.setting, r.State, r.Explanation)
		}
		s.Must("rm", tc.file)
		s.Must("systemctl", "daemon-reload")
	}
	s.Updates("1.1.0")
}
