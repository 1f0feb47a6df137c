package systemd

import (
	"strings"

	"teleport-update/internal/regular"
)

// apparmor is where the kernel tells of AppArmor.
type apparmor struct {
	enabled string // "Y" in it: AppArmor is in force
	loaded  string // a profile for each line, as in "/usr/bin/man (enforce)"; root alone can read it
}

var kernelsAppArmor = apparmor{"/sys/module/apparmor/parameters/enabled", "/sys/kernel/security/apparmor/profiles"}

// mostProfiles bounds the list of profiles, in bytes; a desktop has some 10 kB.
const mostProfiles = 8 << 20

// parseProfile is the profile of AppArmorProfile= that has to be there; empty if there is none.
func parseProfile(p properties) string {
	fields := property[[]any](p, "AppArmorProfile")
	if len(fields) != 2 || fields[0] != false { // with "-" a start does without it
		return ""
	}
	return text(fields, 1)
}

// lacks is the setting of a profile that is not loaded; empty if it is loaded, or if that cannot be told. Where AppArmor is in force,
// systemd starts no process without it (231/APPARMOR).
func (a apparmor) lacks(profile string) string {
	if profile == "" || profile == "unconfined" {
		return ""
	}
	on, err := regular.Read(a.enabled, 16, 0)
	if err != nil || !strings.HasPrefix(string(on), "Y") {
		return ""
	}
	loaded, err := regular.Read(a.loaded, mostProfiles, 0)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(loaded)) {
		name, _, _ := strings.Cut(line, " (")
		if name == profile {
			return ""
		}
	}
	return "AppArmorProfile=" + profile
}
