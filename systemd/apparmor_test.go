package systemd

import (
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
)

// No kernel of the test hosts has AppArmor, so its files are made here.
func TestAProfileOfAppArmorHasToBeLoaded(t *testing.T) {
	const profiles = "/usr/bin/man (enforce)\nteleport-agent (complain)\na profile (kill)\n"
	for name, tc := range map[string]struct {
		ignore          bool
		profile         string
		enabled, loaded string
		want            string
	}{
		"none":                        {enabled: "Y\n", loaded: profiles},
		"a loaded one":                {profile: "teleport-agent", enabled: "Y\n", loaded: profiles},
		"one with a space":            {profile: "a profile", enabled: "Y\n", loaded: profiles},
		"unconfined":                  {profile: "unconfined", enabled: "Y\n", loaded: profiles},
		"one that is not loaded":      {profile: "teleport", enabled: "Y\n", loaded: profiles, want: "AppArmorProfile=teleport"},
		"one of none":                 {profile: "teleport", enabled: "Y\n", loaded: "", want: "AppArmorProfile=teleport"},
		"one that may be missing":     {profile: "teleport", ignore: true, enabled: "Y\n", loaded: profiles},
		"one without AppArmor":        {profile: "teleport", enabled: "N\n", loaded: profiles},
		"one, and nobody can see any": {profile: "teleport", enabled: "Y\n", loaded: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := apparmor{filepath.Join(dir, "enabled"), filepath.Join(dir, "profiles")}
			writeFile(t, a.enabled, tc.enabled)
			if tc.loaded != "-" {
				writeFile(t, a.loaded, tc.loaded)
			}
			p := properties{"AppArmorProfile": dbus.MakeVariant([]any{tc.ignore, tc.profile})}
			if got := a.lacks(parseProfile(p)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
