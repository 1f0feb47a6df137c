//go:build hosts

package hostfaults

import (
	"sync/atomic"
	"testing"
)

// A transaction that is killed at a call, and then a soft reboot: systemd starts all units again under
// the kernel that runs, with its boot id and all of /run. Each phase of it is in each run of the tests, in
// integration/recovery.
func TestATransactionCutOffByASoftReboot(t *testing.T) {
	if !everything {
		t.Skip("a part of make test-faults")
	}
	t.Parallel()
	var points, violations, reboots atomic.Int64
	cut := ""
	for _, c := range sweepCases() {
		if c.cutAfter != "" {
			continue
		}
		c.name, c.soft, c.all = "soft reboot in an "+c.name, true, 11
		cut += c.run(t, &points, &violations, &reboots)
	}
	t.Logf("kill points with a soft reboot: %d, violations: %d%s", points.Load(), violations.Load(), cut)
}

// bootAgain ends all processes of the host and boots it. Every other soft reboot stops units in
// good order.
func (w *sweptHost) bootAgain(n int64) {
	w.T.Helper()
	if w.soft {
		w.Check(w.SoftReboot(w.T.Context(), n%2 == 0))
	} else {
		w.Check(w.Kill())
		w.Check(w.Boot(w.T.Context()))
	}
	w.process = ""
}
