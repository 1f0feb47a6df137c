package canary

import (
	_ "embed"
	"strings"
)

//go:embed settings.txt
var settingsFile string

// kept are the settings of a service that its canary has, too: those that systemd applies to the process itself (systemd.exec(5),
// systemd.resource-control(5)). systemd ignores a name that it does not know.
//
// Left out on purpose, although they are about the process: LimitNPROC= counts all processes of the user, so the service that runs would
// count against its canary. RemoveIPC= removes what the service uses. LogNamespace= starts a journal that stays. TTYPath= and its kin
// hang up a terminal. RootEphemeral= copies a whole root. Delegate= gives a control group away.
var kept = keptSettings()

func keptSettings() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(settingsFile) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			all[name] = true
		}
	}
	return all
}

// hasPaths reports whether a setting has a list of paths, of which some may be optional.
func hasPaths(name string) bool {
	return kept[name] && (strings.HasSuffix(name, "Paths") || strings.HasSuffix(name, "Directories")) && name != "ExtensionDirectories"
}
