package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store/postgres"
	"teleport-update/find/store/postgres/pgtest"
)

// A standby of PostgreSQL is promoted. If it had received the suspend, "enable" is obeyed afterwards, by the server that
// carries it out and by one that has not read the store since; if it lacks the suspend, hosts are told to stay, and the store
// has it again.
func TestASuspendAndAFailoverOfPostgreSQL(t *testing.T) {
	for name, lost := range map[string]bool{"nothing is lost": false, "the suspend is lost": true} {
		t.Run(name, func(t *testing.T) {
			primary := pgtest.Start(t)
			primary.Database("find")
			standby := primary.Standby()
			var servers []*answers.Stored
			for range 2 {
				s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL("find", primary, standby)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				stored, err := answers.NewStored(t.Context(), answers.StoredOptions{Store: s, Base: base, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				servers = append(servers, stored)
			}
			apply := func(texts ...string) {
				t.Helper()
				for _, text := range texts {
					if _, err := servers[0].Apply(t.Context(), parseAll(t, text), answers.ApplyOptions{Who: "uid 0"}); err != nil {
						t.Fatal(err)
					}
				}
				revision := primary.SQL("find", "SELECT revision FROM teleport_find.head")
				follows := func() bool { // it may not have the table yet
					return standby.SQL("find", "SELECT to_regclass('teleport_find.head')") != "" &&
						standby.SQL("find", "SELECT revision FROM teleport_find.head") == revision
				}
				for limit := time.Now().Add(20 * time.Second); standby.Alive() && !follows(); {
					if time.Now().After(limit) {
						t.Fatal("the standby does not follow")
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			refresh := func(told bool) {
				t.Helper()
				for i, s := range servers {
					if err := s.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := s.AnswerTo(rollout.Query{}).AutoUpdate; got != told {
						t.Errorf("server %d tells hosts to update: %t; %q is held", i, got, s.Held())
					}
				}
			}
			apply(immediate, enabled)
			if lost {
				standby.Kill()
			}
			apply(suspended)
			refresh(false)
			primary.Kill()
			if lost {
				standby.Boot()
			}
			standby.Promote()
			if lost {
				refresh(false)
				(&control{t: t, stored: servers[1]}).watchUntilWritten()
				there, err := servers[0].Get(t.Context(), rollout.KindConfig, "")
				if err != nil || there.(*rollout.Config).Spec.Agents.Mode != rollout.Suspended {
					t.Errorf("%v: the store has %+v", err, there)
				}
				refresh(false)
			}
			if _, err := servers[0].Apply(t.Context(), parseAll(t, enabled), answers.ApplyOptions{Who: "uid 0"}); err != nil {
				t.Fatal(err)
			}
			refresh(true)
			for i, s := range servers {
				if held := strings.Join(s.Held(), "\n"); held != "" {
					t.Errorf("server %d holds %q", i, held)
				}
			}
		})
	}
}
