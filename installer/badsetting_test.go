package installer

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/systemd"
)

// A drop-in may keep systemd from loading a unit of the updater's, whose own file is in order: nothing that puts files back or takes a
// mask away helps then, and the drop-in is named.
func TestAUnitOfTheUpdatersThatIsNotLoadedIsToldWithWhatHelps(t *testing.T) {
	const dropIn = "/etc/systemd/system/x.d/typo.conf"
	for name, by := range map[string]decision.Type{
		"teleport-update.timer": decision.TimerStopped, "teleport-update.service": decision.RunNotMade,
		"teleport-update-recover.service": decision.RecoveryBroken,
	} {
		for load, helps := range map[string]string{
			"bad-setting": "systemctl status " + name, "error": "systemctl status " + name,
			"not-found": "`teleport-update update` puts it back", "masked": systemd.Unmask(name),
		} {
			h := newWellHost(t)
			h.own[name] = func(u *systemd.Unit) { u.LoadState, u.DropIns = load, []string{dropIn} }
			h.state(t)
			r, err := h.Status(t.Context(), StatusOptions{})
			must(t, err)
			said := ""
			for _, c := range r.Conditions {
				if c.Type == by || c.Type == decision.TimerOff {
					said += c.Message + "\n"
				}
			}
			wrong := load != "not-found" && strings.Contains(said, "puts it back") || load != "masked" && strings.Contains(said, "systemctl unmask")
			loads := load == "not-found" || load == "masked"
			if names := loads || strings.Contains(said, dropIn); wrong || !names || !strings.Contains(said, helps) {
				t.Errorf("%s is %s: %q", name, load, said)
			}
		}
	}
}

// A timer that is enabled until the next boot starts no run after it.
func TestATimerThatTheNextBootDoesNotStartIsNamed(t *testing.T) {
	for unitFile, named := range map[string]bool{"enabled": false, "static": false, "enabled-runtime": true, "linked": true, "linked-runtime": true, "disabled": true} {
		h := newWellHost(t)
		h.own["teleport-update.timer"] = func(u *systemd.Unit) { u.UnitFileState = unitFile }
		_, types := h.state(t)
		if is := len(types) == 1 && types[0] == decision.TimerOff; is != named {
			t.Errorf("%s: %v", unitFile, types)
		}
	}
}
