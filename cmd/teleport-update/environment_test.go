package main

import (
	"bytes"
	"strings"
	"testing"

	"teleport-update/installer/transaction"
)

// What somebody wrote into the file of variables that the updater's units read must not keep a recovery or
// a run of the timer from its work. A person's own command says what is wrong with it.
func TestNoVariableKeepsAUnitFromItsWork(t *testing.T) {
	for variable, values := range map[string][]string{
		"DEBUG": {"maybe", "yes please"}, "LOG_FORMAT": {"logfmt"}, "LINK_DIR": {"/nonexistent/x", "relative"}, "UNIT_DIR": {"relative"},
		"PROGRAMS_DIR": {"relative", "/"}, "POLICY_DIR": {"relative"}, "AGENT_CONFIG": {"relative"},
	} {
		for _, value := range values {
			for of, unit := range map[string]string{"INVOCATION_ID": "recover --boot", transaction.ScheduledVariable: "update"} {
				t.Run(variable+"="+value+" "+unit, func(t *testing.T) {
					t.Setenv("TELEPORT_UPDATE_"+variable, value)
					t.Setenv(of, "1")
					var stdout, stderr bytes.Buffer
					code := run(t.Context(), append([]string{appName, "--data-dir", t.TempDir()}, strings.Fields(unit)...), &stdout, &stderr)
					if code == exitUsage || !strings.Contains(stderr.String(), "TELEPORT_UPDATE_"+variable) {
						t.Errorf("exit code %d: %s", code, stderr.String())
					}
				})
			}
		}
	}
}

func TestTheEnvironmentOfAPersonIsTheirs(t *testing.T) {
	for _, variable := range []string{"TELEPORT_UPDATE_DATA_DIR", "TELEPORT_UPDATE_DEBUG"} {
		t.Setenv(variable, "somewhere")
		if dropped := dropUnusable([]string{appName, recoverName}); len(dropped) > 0 {
			t.Errorf("a person's recovery goes without %q", dropped)
		}
	}
	t.Setenv("INVOCATION_ID", "1")
	if dropped := dropUnusable([]string{appName, "status"}); len(dropped) > 0 {
		t.Errorf("another command in a unit goes without %q", dropped)
	}
	if dropped := dropUnusable([]string{appName, recoverName, "--boot"}); len(dropped) != 2 {
		t.Errorf("a recovery goes without %q; want both", dropped)
	}
}
