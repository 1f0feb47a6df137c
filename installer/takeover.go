package installer

import (
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
)

// askServers refuses a host that runs servers of the cluster itself. The database of an auth
// service holds the whole cluster; it is in no backup of the updater, and a version that
// migrated it cannot be undone.
func askServers(agent host.AgentSettings, allowed bool) error {
	if agent.Servers == "" || allowed {
		return nil
	}
	return failure.Unchanged("this host runs servers of the cluster itself (%s in the agent's configuration): their data are in no backup of the updater, "+
		"and a version that does not work could not be undone", agent.Servers).
		To("update such hosts by hand, or add --allow-auth-server if their data are backed up by other means").Refused()
}
