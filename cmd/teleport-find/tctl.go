package main

import "strings"

// tctl maps commands of RFD 0169 and of Managed Updates v2 ("tctl autoupdate …") to this program's, the longer ones first.
var tctl = []struct{ theirs, ours string }{
	{"agents status", "status"},
	{"agents report", "report"},
	{"agents start-update", "start-update"},
	{"agents mark-done", "mark-done"},
	{"agents rollback", "rollback"},
	{"status", "status"},
	{"run", "run"},
	{"reset", "reset"},
	{"update --set-agent-auto-update=on", "enable"},
	{"update --set-agent-auto-update=off", "disable"},
	{"update --schedule regular --group", "set-group"},
	{"update", "set-version"},
}

// tctlFlags maps flags of "tctl autoupdate update". The flag of the version maps to nothing: here the version
// is a word.
var tctlFlags = map[string]string{
	"--set-agent-version": "", "--set-start-version": "--start",
	"--set-start-hour": "--start-hour", "--set-jitter-seconds": "--jitter-seconds",
}

// fromTctl turns the words after "autoupdate" into a command of this program. It reports false if words is no command of tctl.
func fromTctl(words []string) (ours []string, ok bool) {
	for _, alias := range tctl {
		theirs := strings.Fields(alias.theirs)
		if len(words) < len(theirs) || strings.Join(words[:len(theirs)], " ") != alias.theirs {
			continue
		}
		ours = []string{alias.ours}
		for _, word := range words[len(theirs):] {
			flag, value, given := strings.Cut(word, "=")
			switch name, known := tctlFlags[flag]; {
			case !known:
				ours = append(ours, word)
			default:
				if name != "" {
					ours = append(ours, name)
				}
				if given {
					ours = append(ours, value)
				}
			}
		}
		return ours, true
	}
	return nil, false
}
