//go:build hosts

package health

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A job that systemd does not begin, for another unit after which the agent is ordered still starts, says
// something about the host: the agent serves on as it is, no job of ours stays, and that unit is named.
func TestHostAJobThatSystemdDoesNotBegin(t *testing.T) {
	for name, by := range map[string]Means{"a reload": Reload, "a restart": Restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHostAgent(t, hostUnit{}, "", "")
			slow := "slow-" + a.unit
			dropIns := "/etc/systemd/system/" + a.unit + ".d"
			if err := os.MkdirAll(dropIns, 0o755); err != nil {
				t.Fatal(err)
			}
			writeHostFile(t, "/etc/systemd/system/"+slow, "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sleep infinity\n")
			writeHostFile(t, dropIns+"/after.conf", "[Unit]\nAfter="+slow+"\n")
			t.Cleanup(func() {
				a.systemctl("stop", slow)
				if err := errors.Join(os.RemoveAll(dropIns), os.Remove("/etc/systemd/system/"+slow)); err != nil {
					t.Error(err)
				}
			})
			a.systemctl("daemon-reload")
			before := a.start()
			a.linkTo("2")
			a.systemctl("start", "--no-block", slow)

			_, err := Prove(t.Context(), a.conn, by, a.watch())
			e, ok := errors.AsType[*UnhealthyError](err)
			if !ok || e.Prevented == nil || !e.OldServes || !strings.Contains(e.Error(), slow) {
				t.Errorf("%+v; want that %s prevents it, and the old process serves", err, slow)
			}
			now := a.state()
			if now.MainPID != before.MainPID || now.InvocationID != before.InvocationID || now.JobPending || a.executes(now.MainPID) != "versions/1/bin/agent" {
				t.Errorf("the agent is %+v; it was %+v", now, before)
			}
		})
	}
}
