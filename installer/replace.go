package installer

import (
	"cmp"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// adopt takes over what the updater that is replaced was told, where neither a flag nor
// updates.yaml says otherwise. A host that it kept on a version stays on that one.
func (i *Installer) adopt(spec *state.Spec) (stay version.Release, err error) {
	if !i.OthersHere() {
		i.Log.Info("there is no other updater on this host to replace")
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
	i.Log.Info("the settings of the other updater are taken over where nothing else was said", "proxy", spec.Proxy, "group", spec.Group, "pinned", spec.Pinned)
	return stay, nil
}
