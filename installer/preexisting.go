package installer

import (
	"context"
	"path/filepath"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// refuseOlder refuses a first enable that would replace an agent, installed by
// other means, with an older one: its database may be beyond the older version,
// and enrolling is no wish to go back.
func (i *Installer) refuseOlder(ctx context.Context, starts string, t version.Release, allow bool) error {
	if allow {
		return nil
	}
	// Where an agent that is not ours may be, the likeliest first.
	for _, program := range []string{starts, filepath.Join(i.Paths.LinkDir, host.AgentName), "/usr/bin/teleport"} {
		if program == "" || !host.Exists(program) {
			continue
		}
		v, err := versions.ProgramVersion(ctx, program)
		if err != nil {
			i.Log.Debug("the version of the installed agent is not known", "program", program, "error", err)
			continue
		}
		if version.Compare(v, t.Version) > 0 {
			return failure.Unchanged("this host runs version %s (%s), newer than version %s that the cluster wants", v, program, t.Short()).
				To("set the cluster to version %s or newer, or add --allow-downgrade", v).Refused()
		}
		return nil
	}
	return nil
}
