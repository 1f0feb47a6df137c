package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
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
			_, said := statusSays(t, s.Installer, by)
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

// overOtherTables is a host whose database has other tables than its active version was proven with, and a backup of the
// version before.
func overOtherTables(t *testing.T, agent func(u *systemd.Unit, executes *string)) *shelf {
	t.Helper()
	s := back(t)
	database := filepath.Join(s.Machine.Host.Paths.DataDir, "proc", "sqlite.db")
	makeDatabase(t, database)
	db, err := backup.Open(database)
	must(t, err)
	defer db.Close()
	_, err = db.Take(t.Context(), backup.TakeRequest{Dir: filepath.Join(s.Machine.Host.Paths.Versions(), "1.0.0", "backup"),
		Meta: backup.Meta{Proxy: s.c.Spec.Proxy, Version: "1.0.0", Edition: version.OSS, Created: noon.Add(-10 * time.Minute)}})
	must(t, err)
	s.c.Status.ActiveSchema, err = s.Machine.Schema(t.Context())
	must(t, err)
	s.save()
	c, err := sqlite3.Open(database)
	must(t, err)
	must(t, c.Exec("CREATE TABLE later (n INTEGER)"))
	must(t, c.Close())
	tree, _, err := s.Machine.Active(s.c)
	must(t, err)
	must(t, s.Machine.Host.Repair(tree))
	s.Machine.Connect = sightOf(s.Installer, agent)
	return s
}

// Yesterday's records and links lie over the database of a later version: nothing goes back over it, whoever asks, and status says so
// in the place of the advice. An agent that is healthy on its tables, or was never proven, has changed them itself.
func TestNothingGoesBackOverADatabaseOfALaterVersion(t *testing.T) {
	failing := func(u *systemd.Unit, executes *string) {
		u.ActiveState, u.SubState, *executes = "activating", "auto-restart", ""
	}
	const refusal = "other tables than version 1.1.0 was proven with"
	for name, tc := range map[string]struct {
		agent   func(u *systemd.Unit, executes *string)
		refused bool
	}{
		"healthy":          {nil, false},
		"failing":          {failing, true},
		"started just now": {func(u *systemd.Unit, _ *string) { u.Since = noon.Add(-time.Second) }, true},
		"stopped":          {stopped, true},
		"unknown":          {func(u *systemd.Unit, _ *string) { u.ActiveState = "" }, false},
	} {
		for _, unproven := range []bool{false, true} {
			s := overOtherTables(t, tc.agent)
			s.c.Status.Unproven = unproven
			s.save()
			n, refused := s.countsOnly(), tc.refused && !unproven
			for command, err := range map[string]error{
				"rollback":           s.Rollback(t.Context(), RollbackOptions{}),
				"rollback --dry-run": second(s.RollbackPlan(t.Context(), RollbackOptions{})),
				"pin":                s.Pin(t.Context(), "1.0.0", PinOptions{}),
			} {
				if is := err != nil && strings.Contains(err.Error(), refusal); is != refused {
					t.Errorf("%s, unproven %v: %s ends with %v; want it refused: %v", name, unproven, command, err, refused)
				}
			}
			if (*n == 0) != refused {
				t.Errorf("%s, unproven %v: %d transactions", name, unproven, *n)
			}
			_, err := s.considerRollback(t.Context(), RollbackOptions{Force: true})
			must(t, err)
		}
	}
	for _, unproven := range []bool{false, true} {
		s := overOtherTables(t, failing)
		s.c.Status.Unproven = unproven
		s.save()
		m := s.ticks()
		m.Unstable = &state.Unstable{Release: oss("1.1.0"), Count: 2, Since: noon, Last: noon}
		must(t, m.Save(s.Machine.Host.Paths.Ticks()))
		_, said := statusSays(t, s.Installer, decision.AgentUnstable)
		for text, want := range map[string]bool{"a rollback would be refused: ": !unproven, refusal: !unproven, "`teleport-update pin VERSION` brings back": !unproven,
			"`teleport-update rollback` goes back to version 1.0.0": unproven} {
			if strings.Contains(said, text) != want {
				t.Errorf("unproven %v: status says %q; want %q in it: %v", unproven, said, text, want)
			}
		}
		n := s.countsOnly()
		s.crashes().goBack(t.Context())
		if (*n > 0) != unproven {
			t.Errorf("unproven %v: the timer's run makes %d transactions", unproven, *n)
		}
	}
}

func second[T any](_ T, err error) error { return err }
