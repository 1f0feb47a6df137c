package transaction

import (
	"context"
	"strings"

	"teleport-update/systemd"
)

// thisBoot names the boot that the host is in: the kernel's and, where systemd tells, the start of the
// units in it. A soft reboot starts all units again and keeps the kernel's boot id.
func (m *Machine) thisBoot(ctx context.Context, agent looker) string {
	u, err := agent.Unit(ctx, systemd.StartOfUnits)
	if err != nil || u.InvocationID == "" {
		return m.BootID()
	}
	return m.BootID() + "/" + u.InvocationID
}

// bootedSince reports whether the host was booted since the journal's entries about processes were
// written.
func (t *transaction) bootedSince(ctx context.Context) bool {
	return !sameBoot(t.j.Boot(), t.m.thisBoot(ctx, t.agent))
}

// sameBoot reports whether two names are of one boot. A name of an older program has the kernel's
// alone, and so has one that was written while systemd did not answer.
func sameBoot(a, b string) bool {
	kernelA, unitsA, _ := strings.Cut(a, "/")
	kernelB, unitsB, _ := strings.Cut(b, "/")
	return kernelA == kernelB && (unitsA == unitsB || unitsA == "" || unitsB == "")
}
