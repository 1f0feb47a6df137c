//go:build hosts

package systemd

import (
	"testing"
	"time"
)

// A stop that systemd would never end comes to its end: the process that does not obey is killed, and so is each command
// after it.
func TestHostAStopWithoutAnEndIsEnded(t *testing.T) {
	const hangs = "[Service]\nTimeoutStopSec=infinity\nExecStart=/bin/sh -c \"trap '' TERM; while :; do sleep 1; done\"\n"
	for name, text := range map[string]string{
		"main":    hangs,
		"process": hangs + "KillMode=process\n",
		"before":  "[Service]\nTimeoutStopSec=infinity\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep infinity\n",
		"after":   hangs + "ExecStopPost=/bin/sleep infinity\n",
		"none":    "[Service]\nTimeoutStopSec=infinity\nKillMode=none\nExecStart=/bin/sleep 100\nExecStop=/bin/sleep infinity\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, unit, systemctl := waitingUnits(t, "hangs-"+name, map[string]string{"agent": text})
			systemctl("start", unit("agent"))
			if err := conn.StopWithin(t.Context(), unit("agent"), 2*time.Second); err != nil {
				t.Error(err)
			}
			u, err := conn.Unit(t.Context(), unit("agent"))
			if err != nil || u.MainPID != 0 || u.ActiveState != "failed" && u.ActiveState != "inactive" {
				t.Errorf("the unit is %s with the process %d, %v", u.ActiveState, u.MainPID, err)
			}
		})
	}
}
