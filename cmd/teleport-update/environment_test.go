package main

import (
	"bytes"
	"os"
	"slices"
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
		"NOW": {"true", "maybe"}, "DRY_RUN": {"true", ""}, "RESTART": {"true"}, "SKIP_BACKUP": {"true"},
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

// The flags of update are for one command. In the file of variables, each would hold for every run of the timer: a dry run
// ends well, so the host would stay behind and no status would say so.
func TestNoVariableIsAFlagOfEachRunOfTheTimer(t *testing.T) {
	flags := (&app{}).updateCommand().Flags
	if len(flags) == 0 {
		t.Fatal("update has no flags")
	}
	for _, flag := range flags {
		variable := env(strings.ToUpper(strings.ReplaceAll(flag.Names()[0], "-", "_")))[0]
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "true")
			if dropped := dropUnusable([]string{appName, "update"}); len(dropped) > 0 {
				t.Errorf("a person's update goes without %q", dropped)
			}
			for _, scheduled := range []string{"1", "0", ""} { // the unit's value, and those of a file that has the variable, too
				t.Setenv(variable, "true")
				t.Setenv(transaction.ScheduledVariable, scheduled)
				if dropped := dropUnusable([]string{appName, "update"}); !slices.Equal(dropped, []string{variable}) {
					t.Errorf("a run of the timer (%q) goes without %q; want %q", scheduled, dropped, variable)
				}
				if value, set := os.LookupEnv(variable); set {
					t.Errorf("a run of the timer (%q) goes by %s=%s", scheduled, variable, value)
				}
			}
		})
	}
}
