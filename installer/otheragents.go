package installer

import (
	"path/filepath"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
)

// checkOtherAgents refuses a first enable that would replace the program of an agent which another unit starts.
func checkOtherAgents(i *Installer) error {
	now := i.surveyToChange()
	defer now.Close()
	others, err := now.OtherAgents()
	if err != nil {
		return failure.Unchanged("it cannot be told whether another unit starts an agent: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	o, paths := others[0], i.Machine.Host.Paths
	return failure.Unchanged("%s runs an agent by %s (PID %d), and the updater looks after %s only: that agent would start on the "+
		"cluster's version next time, without a backup of its database, and nobody would watch it", o.Unit,
		filepath.Join(paths.LinkDir, host.AgentName), o.PID, paths.AgentUnit()).
		To("if the updater is to look after it, name its unit %[2]s: `systemctl disable --now %[1]s`, move its file, `systemctl daemon-reload`, "+
			"`systemctl enable --now %[2]s`, then run the command again; if not, give the updater a folder of its own: "+
			"`teleport-update --link-dir DIR enable`, with the other options as before", o.Unit, paths.AgentUnit()).Refused()
}
