package transaction

import (
	"context"
	"fmt"
	"strings"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/systemd"
)

// thisBoot names the boot that the host is in: the kernel's and, if systemd reports it, the start of
// the units in it. A soft reboot starts all units again and keeps the kernel's boot id.
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

// sameBoot reports whether two names are of one boot. A name from an older program, or written
// while systemd did not answer, has only the kernel's part.
func sameBoot(a, b string) bool {
	kernelA, unitsA, _ := strings.Cut(a, "/")
	kernelB, unitsB, _ := strings.Cut(b, "/")
	return kernelA == kernelB && (unitsA == unitsB || unitsA == "" || unitsB == "")
}

// forgetMounts has the boots after the transaction wait for nothing.
func (m *Machine) forgetMounts() {
	m.warn(m.Host.OwnUnits().ForgetMounts(), "boots may wait for the agent's data as if a transaction were open")
}

// close ends the transaction: it removes the journal, and then what is there for its sake. Only the
// second name of its backup goes first: an older program takes a backup with two names for a
// damaged one, and leaves it alone only because of the journal.
func (t *transaction) close(ctx context.Context) error {
	if d := t.j.Database; d.Taken {
		t.m.warn(backup.Settle(d.Dir), "records of yesterday would take the transaction for one whose journal is lost")
	}
	t.m.dropSecondName()
	t.m.warn(forgetStop(t.m.Host.Paths.Stopped()), "an agent that somebody stops may be started again")
	t.m.warn(t.dropReserve(ctx), "room in the folder of the agent's database stays reserved until the next change of version")
	if err := durable.Remove(t.m.Host.Paths.Journal()); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	t.m.warn(t.m.dropSpares(), "the next run removes them")
	t.m.forgetMounts()
	return nil
}

// journalIfBooted finds out, before anything is stopped here, whether an agent that ran is down
// since a reboot: an agent that a person had started by hand does not come back at boot, and this
// program does not start it. An agent that runs is left alone until there is room for the note:
// without the note, each run would stop it, and restore its database, as if it were the first.
func (t *transaction) journalIfBooted(ctx context.Context) error {
	if !t.bootedSince(ctx) {
		return nil
	}
	sight, err := t.agent.Look(ctx)
	if err != nil || sight.State == state.AgentUnknown {
		return err
	}
	// An agent that is enabled and was never started since has yet to come: its mount is late. Nobody
	// knows whether a masked agent is enabled. If systemd could not read the unit at this boot, the
	// record says whether it is enabled.
	enabled := sight.UnitFileState == "enabled" || sight.LoadState == "masked"
	if sight.LoadState != "loaded" && t.j.Agent.UnitFile == "enabled" {
		enabled = true
	}
	late := sight.InvocationID == "" && enabled
	down := t.j.Agent.State.Wanted() && sight.State == state.AgentStopped && !late
	if down {
		t.m.Host.Log.Info("the agent stays down: systemd did not start it at this boot")
	}
	err = t.j.journalBoot(t.m.thisBoot(ctx, t.agent), down, t.dependentsUp(ctx))
	if err != nil && sight.State != state.AgentRunning {
		t.m.Host.Log.Warn("that the host was booted cannot be written into the journal now", "error", err)
		return nil
	}
	return err
}
