package transaction

import (
	"context"

	"teleport-update/installer/state"
)

// journalIfBooted finds out, before anything is stopped here, whether an agent ran that
// is down since a reboot: what a person had started by hand does not come back
// at boot, and is not for us to start. An agent that runs is left alone until there is room for
// the note: without it, each run would stop it, and restore its database, as if it were the first.
func (t *transaction) journalIfBooted(ctx context.Context) error {
	if !t.bootedSince(ctx) {
		return nil
	}
	sight, err := t.agent.Look(ctx)
	if err != nil || sight.State == state.AgentUnknown {
		return err
	}
	// One that is enabled and was never started since has yet to come: its mount is late.
	// Of one that is masked nobody knows whether it is enabled, and of one that systemd could not read
	// at this boot the record has it.
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
