package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"teleport-update/installer/transaction"
)

// env returns the variable of a flag.
func env(name string) []string { return []string{"TELEPORT_UPDATE_" + name} }

const recoverName = "recover"

// usable says which values of the environment count in a run of our own units. Unusual folders are in the unit's command: a file of
// variables that names other folders would have the runs look at another host's worth of folders, and find nothing there. The flags of
// update are for one command of a person: in a file they would hold for each run, which then changes nothing, ignores the back-off of a
// version that failed, or takes no backup.
var usable = map[string]func(value string) bool{
	"DATA_DIR":     never,
	"LINK_DIR":     never,
	"UNIT_DIR":     never,
	"PROGRAMS_DIR": never,
	"NOW":          never,
	"DRY_RUN":      never,
	"RESTART":      never,
	"SKIP_BACKUP":  never,
	"POLICY_DIR":   filepath.IsAbs,
	"AGENT_CONFIG": filepath.IsAbs,
	"LOG_FORMAT":   func(format string) bool { return slices.Contains([]string{"", "text", "json"}, format) },
	"DEBUG":        isBool,
}

func never(string) bool { return false }

func isBool(value string) bool {
	_, err := strconv.ParseBool(value)
	return value == "" || err == nil
}

// dropUnusable removes variables from the environment that would keep a run of the timer, or a recovery, from its work, and returns their
// names. A person's variable for logs must not cost a host its agent. A person's command line is different: there a value that cannot be
// used is an error.
func dropUnusable(args []string) (dropped []string) {
	recovery := slices.Contains(args, recoverName) && os.Getenv("INVOCATION_ID") != "" // of a unit's process
	if !recovery && !transaction.Scheduled() {
		return nil
	}
	for name, use := range usable {
		for _, variable := range env(name) {
			if value, set := os.LookupEnv(variable); set && !use(value) {
				os.Unsetenv(variable)
				dropped = append(dropped, variable)
			}
		}
	}
	slices.Sort(dropped)
	return dropped
}
