package installer

import (
	"context"
	"slices"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
)

// seeReport sees that the agent reports to its cluster, from its next start on, or
// does not, as the configuration says.
func (i *Installer) seeReport(ctx context.Context, spec state.Spec) error {
	changed, err := i.Machine.Host.ReportToCluster(!spec.NoClusterReport)
	if err != nil {
		// No agent may wait for what is only told about it.
		i.Machine.Host.Log.Warn("the agent may not report its updates to its cluster", "error", err)
	}
	if !changed {
		return nil
	}
	return i.reloadUnits(ctx)
}

// settleReport writes what the agent reports to its cluster: a host that is held, or
// backs off, does not follow the cluster, just as a pinned one.
func (i *Installer) settleReport(c state.Config, r view.Status) error {
	stays := func(c decision.Condition) bool {
		return c.Type == decision.HostHeld || c.Type == decision.VersionBacksOff
	}
	return i.Machine.Host.WriteClusterConfig(c, c.Spec.Pinned || slices.ContainsFunc(r.Conditions, stays))
}
