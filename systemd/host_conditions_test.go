//go:build hosts

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/procfs"
)

// What is found out about a condition before a start is what systemd does with that start, also of conditions about process 1's own
// environment, rights and CPUs.
func TestHostConditionsHoldAsSystemdSays(t *testing.T) {
	conn := dialHost(t)
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %q: %v: %s", args, err, out)
		}
	}
	run("set-environment", "OF_SYSTEMD=yes")
	likeInit := procfs.Host().SameAs(1, "CapBnd") == nil // this process was not started by systemd
	conditions := []string{
		"ConditionEnvironment=OF_SYSTEMD", "ConditionEnvironment=!OF_SYSTEMD", "ConditionEnvironment=OF_SYSTEMD=no",
		"ConditionEnvironment=NO_SUCH_VARIABLE",
		"ConditionCapability=CAP_CHOWN", "ConditionCapability=!CAP_CHOWN", "ConditionCPUs=>=1", "ConditionCPUs=>100000",
		"ConditionPathExists=/etc/passwd", "ConditionPathExists=/nonexistent", "ConditionPathIsReadWrite=/run", "ConditionPathIsReadWrite=!/run",
	}
	unit := func(n int) string { return fmt.Sprintf("condition-%d.service", n) }
	const wants = "/run/systemd/system/multi-user.target.wants" // else systemd forgets the unit, and what became of its start
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	for n, condition := range conditions {
		file := "/run/systemd/system/" + unit(n)
		writeHostFile(t, file, "[Unit]\n"+condition+"\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")
		if err := os.Symlink(file, filepath.Join(wants, unit(n))); err != nil {
			t.Fatal(err)
		}
	}
	run("daemon-reload")
	for n, condition := range conditions {
		before, err := conn.Unit(t.Context(), unit(n))
		if err != nil {
			t.Fatal(err)
		}
		unmet := before.Ties.Unmet(t.Context())
		if err := conn.Start(t.Context(), unit(n)); err != nil {
			t.Fatal(err)
		}
		after, err := conn.Unit(t.Context(), unit(n))
		if err != nil {
			t.Fatal(err)
		}
		told := likeInit || !strings.Contains(condition, "Capability")
		if skipped := after.ActiveState != "active"; told && skipped != (len(unmet) > 0) || skipped != after.WasSkipped() {
			t.Errorf("%s: %v do not hold, and systemd skips the start: %v, which is seen: %v", condition, unmet, skipped, after.WasSkipped())
		}
	}
}
