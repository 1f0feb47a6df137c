//go:build hosts

package acts

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// observedCase is a fact, and what status may say of it: a state, or a condition.
type observedCase struct{ fact, name, value, allowed, has string }

// A host with which nothing is wrong, and what makes each fact of it.
var (
	wellObserved = observation{
		"program": programs + "/1.0.0/bin/teleport", "program.version": "1.0.0",
		"agent.ActiveState": "active", "agent.LoadState": "loaded", "agent.FragmentPath": unitFile, "agent.UnitFileState": "enabled", "agent.NeedDaemonReload": "no",
		"timer.LoadState": "loaded", "timer.ActiveState": "active", "timer.UnitFileState": "enabled",
		"run.LoadState": "loaded", "run.Result": "success", "recovery.LoadState": "loaded", "rescuer": "runs",
		"link.teleport": programs + "/1.0.0/bin/teleport", "link.tsh": programs + "/1.0.0/bin/tsh",
		"link.tctl": programs + "/1.0.0/bin/tctl", "link.tbot": programs + "/1.0.0/bin/tbot",
		"unit": "same", "active": "1.0.0", "schema": "1", "dependent.other-requires.service": "active", "mounted": "yes",
	}
	observed = []observedCase{
		{"the agent does not run", "agent.ActiveState", "failed", "needs_attention", ""},
		{"what the agent executes", "program", programs + "/1.1.0/bin/teleport", "needs_attention", ""},
		{"the program", "program.version", "1.1.0", "needs_attention", ""},
		{"the links", "link.tsh", programs + "/1.1.0/bin/tsh", "needs_attention", ""},
		{"the links", "unit", "differs", "needs_attention", ""},
		{"what systemd has loaded", "agent.FragmentPath", "/etc/systemd/system/teleport.service", "needs_attention", ""},
		{"what systemd has loaded", "unit_file", "/etc/systemd/system/teleport.service", "needs_attention", ""},
		{"what systemd has loaded", "agent.NeedDaemonReload", "yes", "needs_attention", ""},
		{"what systemd has loaded", "agent.LoadState", "not-found", "needs_attention", ""},
		{"the agent is masked", "agent.LoadState", "masked", "waiting", ""},
		{"the agent at boot", "agent.UnitFileState", "disabled", "", "agent_not_enabled"},
		{"the timer's last run", "run.Result", "exit-code", "failing", ""},
		{"the timer's last run", "run.Result", "exit-code", "backing_off", ""},
		{"the timer's last run did not end by itself", "run.Result", "signal", "failing", ""},
		{"the timer", "timer.ActiveState", "inactive", "", "timer_off"},
		{"the run's unit", "run.LoadState", "masked", "failing", ""},
		{"the recovery", "recovery.LoadState", "masked", "needs_attention", ""},
		{"the recovery", "recovery.UnitFileState", "disabled", "needs_attention", ""},
		{"the recovery", "rescuer", "does not run", "needs_attention", ""},
		{"the journal", "journal", "there", "needs_attention", ""},
		{"the schema", "schema", "2", "needs_attention", ""},
		{"the schema", "database", "missing", "needs_attention", ""},
		{"dependents", "dependent.other-requires.service", "inactive", "needs_attention", ""},
		{"the mount of the data", "mounted", "", "needs_attention", ""},
	}
)

// Each fact forbids idle, or has status name it; what status may say of it is no violation.
func TestTheObserverMissesNothing(t *testing.T) {
	r := &trial{combination: combination{action: actions()[0]}, shared: &shared{own: true}}
	if wrong := r.compare(wellObserved, statusJSON{State: "idle"}); wrong != nil {
		t.Errorf("a host with which nothing is wrong: %v", wrong)
	}
	for _, tc := range observed {
		o := maps.Clone(wellObserved)
		o[tc.name] = tc.value
		if wrong := r.compare(o, statusJSON{State: "idle"}); len(wrong) == 0 {
			t.Errorf("%s=%s, and status may say idle", tc.name, tc.value)
		}
		s := statusJSON{State: tc.allowed}
		if tc.has != "" {
			s = statusJSON{State: "idle", Conditions: []struct{ Type, Severity, Message string }{{Type: tc.has}}}
		}
		if wrong := r.compare(o, s); wrong != nil {
			t.Errorf("%s=%s, and status says so: %s", tc.name, tc.value, strings.Join(wrong, "; "))
		}
	}
	r.action = actsBefore()[0]
	if wrong := r.compare(wellObserved, statusJSON{State: "idle"}); wrong == nil {
		t.Errorf("under %q, and status may say idle", r.action.name)
	}
	for _, f := range facts {
		// One is a graver case of another, one is of acts.
		if f.name != "the agent should run and does not" && f.name != "the next start" && !slices.ContainsFunc(observed, func(c observedCase) bool { return c.fact == f.name }) {
			t.Errorf("no host shows the fact %q", f.name)
		}
	}
}

// A state that says nothing of a failed run is none over one, however harmless it is without.
func TestAFailedRunIsNotPassedOver(t *testing.T) {
	r := &trial{combination: combination{action: actions()[0]}, shared: &shared{own: true}}
	for _, tc := range []struct {
		result, status string
		forbidden      []string
	}{
		{"success", "0", nil},
		{"exit-code", "1", []string{"idle", "pinned", "held", "disabled", "waiting"}},
		{"exit-code", "203", harmless},
		{"signal", "9", harmless},
		{"timeout", "15", harmless},
		{"resources", "0", harmless},
		{"oom-kill", "9", harmless},
	} {
		o := maps.Clone(wellObserved)
		o["run.Result"], o["run.ExecMainStatus"] = tc.result, tc.status
		for _, state := range append([]string{"failing"}, harmless...) {
			if wrong := r.compare(o, statusJSON{State: state}); (wrong != nil) != slices.Contains(tc.forbidden, state) {
				t.Errorf("%s of a run that ended with %s, %s: %v", state, tc.result, tc.status, wrong)
			}
		}
	}
}

// What status names first is what is typed; what only looks is not.
func TestWhatStatusAdvises(t *testing.T) {
	for says, want := range map[string][]string{
		"the agent is down: `systemctl start teleport` starts it":                                             {"systemctl start teleport"},
		"it is masked: `systemctl unmask teleport`, then `systemctl enable --now teleport`":                   {"systemctl unmask teleport", "systemctl enable --now teleport"},
		"`teleport-update rollback` goes back to version 1.0.0, `journalctl -u teleport` says why":            {"teleport-update rollback"},
		"see `systemctl status teleport-update.service` and `journalctl -u teleport-update`":                  nil,
		"`systemctl daemon-reload`, or `systemctl unmask teleport-update-recover.service` puts it right here": {"systemctl daemon-reload"},
	} {
		if got := (statusJSON{Explanation: says}).advised(); !slices.Equal(got, want) {
			t.Errorf("%q advises %q; want %q", says, got, want)
		}
	}
}
