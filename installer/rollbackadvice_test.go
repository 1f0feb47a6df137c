package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/systemd"
)

// status advises a rollback if nothing refuses it, and else says why it would be refused and what helps.
func TestARollbackIsAdvisedOnlyIfItWouldBegin(t *testing.T) {
	const advice = "`teleport-update rollback` goes back to version 1.0.0"
	for name, tc := range map[string]struct {
		breaks func(t *testing.T, s *shelf)
		says   string // empty: the rollback is advised
	}{
		"nothing is in the way": {func(*testing.T, *shelf) {}, ""},
		"no backup of the database": {func(t *testing.T, s *shelf) {
			makeDatabase(t, filepath.Join(s.Machine.Host.Paths.DataDir, "proc", "sqlite.db"))
		}, "`teleport-update rollback 1.0.0 --force`"},
		"a damaged version": {func(t *testing.T, s *shelf) {
			must(t, os.Remove(filepath.Join(s.Machine.Host.Paths.Versions(), "1.0.0", "bin", "tsh")))
		}, "`teleport-update pin 1.0.0` fetches it again"},
		"below the policy's minimum": {func(t *testing.T, s *shelf) {
			s.Installer.owner(t, map[string]string{"policy.yaml": "minimum: 1.1.0\n"})
		}, "with --below-minimum"},
	} {
		for _, unstable := range []bool{true, false} {
			s := back(t)
			s.c.Spec.Health.RollbackWindow = 0
			s.save()
			s.Machine.Connect = sightOf(s.Installer, func(u *systemd.Unit, executes *string) {
				u.ActiveState, u.SubState, *executes = "activating", "auto-restart", ""
			})
			tree, _, err := s.Machine.Active(s.c)
			must(t, err)
			must(t, s.Machine.Host.Repair(tree))
			by := decision.AgentDown
			if unstable {
				m := s.ticks()
				m.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon, Last: noon}
				must(t, m.Save(s.Machine.Host.Paths.Ticks()))
				by = decision.AgentUnstable
			}
			tc.breaks(t, s)
			r, err := s.Status(t.Context(), StatusOptions{Offline: true})
			must(t, err)
			said := ""
			for _, c := range r.Conditions {
				if c.Type == by {
					said = c.Message
				}
			}
			refused := strings.Contains(said, "a rollback would be refused: ")
			if said == "" || refused != (tc.says != "") || strings.Contains(said, advice) == refused || !strings.Contains(said, tc.says) {
				t.Errorf("%s: %s says %q; want %q", name, by, said, tc.says)
			}
			if !strings.Contains(said, "`journalctl -u teleport` says why") || strings.Contains(said, "nothing was changed") {
				t.Errorf("%s: %s says %q", name, by, said)
			}
		}
	}
}

// What verify finds damaged is repaired by `update` only if it is active. Of another version the line says what helps.
func TestVerifySaysWhatRepairsADamagedVersion(t *testing.T) {
	for v, says := range map[string]string{"1.1.0": "", "1.0.0": "`teleport-update pin 1.0.0 --allow-downgrade` fetches it again"} {
		s := back(t)
		must(t, os.Remove(filepath.Join(s.Machine.Host.Paths.Versions(), v, "bin", "tsh")))
		s.Machine.Connect = sightOf(s.Installer, nil)
		findings, err := s.Verify(t.Context())
		must(t, err)
		line := strings.Join(about(findings, "version "+v), "\n")
		if !strings.HasPrefix(line, "BAD") || strings.Contains(line, "fetches it again") != (says != "") || !strings.Contains(line, says) {
			t.Errorf("of version %s verify says %q; want %q", v, line, says)
		}
	}
}
