package installer

import (
	"context"
	"path/filepath"

	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// refuseOlder refuses a first enable that would replace an agent, installed by
// other means, with an older one: its database may be beyond the older version,
// and enrolling is no wish to go back.
func (i *Installer) refuseOlder(ctx context.Context, conn *systemd.Conn, t target, allow bool) error {
	if allow {
		return nil
	}
	for _, program := range i.unmanagedAgents(ctx, conn) {
		v, err := versions.ProgramVersion(ctx, program)
		if err != nil {
			i.Log.Debug("the version of the agent that is here could not be told", "program", program, "error", err)
			continue
		}
		if version.Compare(v, t.Version) > 0 {
			return refuse("this host runs version %s (%s), newer than version %s that the cluster wants; nothing was changed: "+
				"have the cluster want at least %s, or insist with --allow-downgrade", v, program, describe(t.Version, t.Edition), v)
		}
		return nil
	}
	return nil
}

// unmanagedAgents lists where an agent that is not ours may be, the likeliest
// first.
func (i *Installer) unmanagedAgents(ctx context.Context, conn *systemd.Conn) []string {
	var programs []string
	if conn != nil {
		if u, err := conn.Unit(ctx, AgentUnit); err == nil && u.ExecStart != "" {
			programs = append(programs, u.ExecStart)
		}
	}
	var present []string
	for _, p := range append(programs, filepath.Join(i.Paths.LinkDir, "teleport"), "/usr/bin/teleport") {
		if exists(p) {
			present = append(present, p)
		}
	}
	return present
}
