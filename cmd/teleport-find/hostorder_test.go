package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// One host updates, stays or goes back by an order of its own, whatever its group; the history has it.
func TestAHostHasAnOrderOfItsOwn(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 2, "prod": 2})
	write(t, filepath.Join(s.dir, "groups.yaml"), oneHour)
	shows := func(line, want string) {
		t.Helper()
		if out := s.run(line); !strings.Contains(out, want) {
			t.Errorf("%s:\n%s\nwant %s", line, out, want)
		}
	}
	told := func(name, want string) {
		t.Helper()
		a := s.stored.AnswerTo(rollout.Query{Group: s.hosts[name].group, Host: s.hosts[name].id})
		got := a.Version
		if a.AutoUpdate {
			got += " now"
		}
		if got != want {
			t.Errorf("%s is told %s; want %s", name, got, want)
		}
	}
	s.run("apply -f groups.yaml")
	shows("hosts dev-1 hold", "- The host is held since ")
	told("dev-1", "15.1.1")
	told("dev-2", "15.1.1 now")
	shows("hosts", "held since ")
	shows("hosts dev-1 update", "no version is set")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.tick()
	told("dev-1", "15.2.0")
	s.run("set-version --newest")
	told("dev-1", "15.1.1")
	shows("hosts dev-1 release", "is told 15.1.1 oss, and to update")
	s.run("set-version 15.2.0 --start 15.1.1")
	s.tick()
	shows("hosts prod-1 update --dry-run", "nothing was changed (a dry run)")
	told("prod-1", "15.1.1")
	shows("hosts prod-1 update --reason \"it has the bug\"", "is told 15.2.0 oss, and to update")
	told("prod-1", "15.2.0 now")
	told("prod-2", "15.1.1")
	shows("hosts dev-1 hold --until 2h", "- The host is held since ")
	shows("hosts", "held since ")
	s.pass(20 * time.Minute)
	if v, held := s.hosts["prod-1"].version, s.hosts["dev-1"].version; v != "15.2.0" || held != "15.1.1" {
		t.Errorf("prod-1 runs %s, and dev-1, which is held, %s", v, held)
	}
	shows("status", "not counted: 1 (held by an order)")
	shows("hosts prod-1 update --to start", "is told 15.1.1 oss, and to update")
	shows("history", "it has the bug  host "+s.hosts["prod-1"].id+" update")
	shows("hosts dev-1 release", "is told 15.2.0 oss, and to update")
	shows("hosts dev-1 release", "has no order of its own: it follows its group; nothing was written\n(exit code 1)")
	s.run("rollout start prod --force")
	s.pass(time.Minute)
	s.run("rollout back")
	told("prod-1", "15.1.1 now")
	s.run("hosts prod-1 update")
	told("prod-1", "15.2.0 now")
	s.run("rollout reset")
	s.run("hosts prod-1 hold")
	s.run("hosts prod-2 hold")
	s.run("hosts dev-2 hold")
	s.run("token revoke-host " + s.hosts["prod-1"].id)
	if list := s.stored.Resources().Overrides; len(list) != 2 {
		t.Errorf("after a host was revoked, the orders are %v", list)
	}
	gone := "00000099-0000-4000-8000-000000000000"
	shows("hosts "+gone+" release", "has no order of its own")
	shows("hosts "+gone+" hold", "no host \""+gone+"\" has joined")
	if _, err := s.fleet.RevokeHost(t.Context(), rollout.ParseHostID(s.hosts["prod-2"].id), store.Audit{}, false); err != nil {
		t.Fatal(err)
	}
	shows("hosts "+s.hosts["prod-2"].id+" release", "has no order any more; no host of this ID has joined")
	s.run("token revoke all --hosts")
	if list := s.stored.Resources().Overrides; len(list) != 0 {
		t.Errorf("after a token was revoked with its hosts, the orders are %v", list)
	}
	shows("hosts dev-1 stop", "an order to a host is update, hold or release")
	shows("hosts dev-1 hold --until tomorrow", "is neither a time")
}
