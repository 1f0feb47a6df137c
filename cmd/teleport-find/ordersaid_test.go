package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const oneHour = `kind: autoupdate_config
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 11}
      - {name: prod, days: ["*"], start_hour: 11}
`

// What is printed of an order is what follows from it, and not what was before the next tick of the engine.
func TestAnOrderSaysWhatFollowsFromIt(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1, "prod": 3})
	write(t, filepath.Join(s.dir, "groups.yaml"), oneHour)
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0")
	s.tick()
	if out := s.run("status"); !strings.Contains(out, "0 of 1 host of dev is on 15.2.0") {
		t.Fatalf("dev does not update:\n%s", out)
	}
	if out := s.run("rollout done dev --dry-run"); !strings.Contains(out, "dev would be done") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("a dry run says\n%s", out)
	}
	if out := s.run("rollout done dev"); !strings.Contains(out, "updating: 0 of 3 hosts of prod are on 15.2.0") {
		t.Errorf("prod starts at once, and what is said is\n%s", out)
	}
}

// One host is one host.
func TestOneHostIsOne(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1})
	write(t, filepath.Join(s.dir, "groups.yaml"), strings.Replace(oneHour, "start_hour: 11}", "start_hour: 11, max_in_flight: 1, max_failed_before_halt: 0%}", 1))
	s.run("apply -f groups.yaml")
	s.run("set-version 15.2.0")
	said := ""
	look := func() {
		for _, command := range []string{"status", "plan", "hosts", "history"} {
			said += s.run(command)
		}
	}
	for range 3 {
		s.tick()
		look()
	}
	s.pass(30*time.Minute, "dev-1")
	look()
	for _, wrong := range []string{" 1 hosts", "\n1 hosts", "1 host are", "1 host have", "1 host were"} {
		if strings.Contains(said, wrong) {
			t.Errorf("%q is said:\n%s", wrong, said)
		}
	}
	for _, want := range []string{"1 of 1 host failed", "halted"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
}

// A plan that cannot end in its 24 hours is named when it is set, although it waits for the next rollout.
func TestAPlanThatTakesTooLongIsNamedWhenItIsSet(t *testing.T) {
	s := newStation(t, map[string]int{"prod": 3})
	prod := `{name: prod, days: ["*"], start_hour: 11`
	slow := strings.Replace(oneHour, prod, prod+", max_in_flight: 1, jitter_seconds: 86400", 1)
	const want = "group prod: 3 hosts, so many at a time as max_in_flight 1 allows, take about 37 hours"
	for _, step := range []string{"before a version is set", "in the middle of a rollout to the version that they run"} {
		write(t, filepath.Join(s.dir, "groups.yaml"), slow)
		if out := s.run("apply -f groups.yaml"); strings.Count(out, want) != 1 {
			t.Errorf("%s:\n%s", step, out)
		}
		write(t, filepath.Join(s.dir, "groups.yaml"), oneHour)
		if out := s.run("apply -f groups.yaml"); strings.Contains(out, "take about") {
			t.Errorf("%s, without a plan:\n%s", step, out)
		}
		s.run("set-version 15.1.1")
		s.tick()
	}
}
