package installer

import (
	"cmp"
	"context"
	"path/filepath"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
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
	for _, program := range []string{starts, filepath.Join(i.Machine.Host.Paths.LinkDir, host.AgentName), "/usr/bin/teleport"} {
		if program == "" || !host.Exists(program) {
			continue
		}
		v, err := versions.ProgramVersion(ctx, program)
		if err != nil {
			i.Machine.Host.Log.Debug("the version of the installed agent is not known", "program", program, "error", err)
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

// adopt takes over what the updater that is replaced was told, where neither a flag nor
// updates.yaml says otherwise. A host that it kept on a version stays on that one.
func (i *Installer) adopt(spec *state.Spec) (stay version.Release, err error) {
	if !i.Machine.Host.OthersHere() {
		i.Machine.Host.Log.Info("there is no other updater on this host to replace")
		return stay, nil
	}
	theirs, err := host.ReadOthersSettings()
	if err != nil {
		return stay, err
	}
	spec.Proxy, spec.Group = cmp.Or(spec.Proxy, theirs.Proxy), cmp.Or(spec.Group, theirs.Group)
	if len(spec.URLTemplates) == 0 && theirs.Template != "" {
		spec.URLTemplates = []string{theirs.Template}
	}
	if theirs.Pinned && theirs.Active.Version != "" && spec.ActiveVersion == "" {
		spec.Pinned, stay = true, theirs.Active
	}
	i.Machine.Host.Log.Info("the settings of the other updater are taken over where nothing else was said", "proxy", spec.Proxy, "group",
		spec.Group, "pinned", spec.Pinned)
	return stay, nil
}
