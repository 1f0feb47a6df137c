package installer

import (
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/systemd"
)

// A drop-in may put a shell around the run, as for a proxy: runs work then, and one that does nothing is found by its missing trace. The
// recovery is counted on before it ever runs, so a shell around it is a fault. No word of either is shown, for it may be a password.
func TestAShellAroundAUnitOfTheUpdaters(t *testing.T) {
	for name, tc := range map[string]struct {
		unit, command string
		by            decision.Type
		says          string
	}{
		"a run":                  {"teleport-update.service", ". /etc/profile.d/proxy.sh; exec /usr/bin/teleport-update update", "", ""},
		"a run with flags":       {"teleport-update.service", "flock /run/x teleport-update update --debug", "", ""},
		"no run":                 {"teleport-update.service", "curl -u me:secret example.org", decision.UpdaterBroken, "starts /bin/sh, which updates nothing"},
		"a recovery":             {"teleport-update-recover.service", "TOKEN=secret teleport-update recover --boot", decision.RecoveryBroken, "is started through /bin/sh"},
		"something, no recovery": {"teleport-update-recover.service", "echo secret", decision.RecoveryBroken, "starts /bin/sh, which is not the recovery"},
	} {
		h := newWellHost(t)
		h.own[tc.unit] = func(u *systemd.Unit) {
			u.Command, u.DropIns = []string{"/bin/sh", "-c", tc.command}, []string{"/etc/systemd/system/x.d/shell.conf"}
		}
		h.state(t)
		r, err := h.Status(t.Context(), StatusOptions{})
		must(t, err)
		said := map[decision.Type]string{}
		for _, c := range r.Conditions {
			said[c.Type] = c.Message
			if strings.Contains(c.Message, "secret") {
				t.Errorf("%s: a word is shown: %s", name, c.Message)
			}
		}
		if len(said) > 0 != (tc.by != "") || !strings.Contains(said[tc.by], tc.says) {
			t.Errorf("%s: %q", name, said)
		}
	}
}
