package main

import (
	"slices"
	"strings"
)

// aliases maps other spellings to this program's: commands of RFD 0169 and of Managed Updates v2 ("tctl autoupdate …"),
// plurals and singulars. An alias of a command stands at the beginning of the words, a longer one before a shorter one. An
// alias of a flag is for the commands of tctl.
var aliases = []struct{ theirs, ours string }{
	{"autoupdate agents status", "status"},
	{"autoupdate agents report", "status"},
	{"autoupdate agents start-update", "rollout start"},
	{"autoupdate agents mark-done", "rollout done"},
	{"autoupdate agents rollback", "rollout back"},
	{"autoupdate status", "status"},
	{"autoupdate run", "rollout start"},
	{"autoupdate update --set-agent-auto-update on", "mode enabled"},
	{"autoupdate update --set-agent-auto-update off", "mode disabled"},
	{"autoupdate update", "set-version"},
	{"--group", ""}, // here the group is a word, as is the version
	{"--set-agent-version", ""},
	{"--set-start-version", "--start"},
	{"--critical", "--schedule critical"},
	{"get autoupdate_configs", "get autoupdate_config"},
	{"get autoupdate_versions", "get autoupdate_version"},
	{"get autoupdate_agent_rollouts", "get autoupdate_agent_rollout"},
	{"get autoupdate_agent_reports", "get autoupdate_agent_report"},
	{"get agent_rollout_plans", "get agent_rollout_plan"},
	{"tokens", "token"},
	{"host", "hosts"},
}

// unaliased returns the words in this program's spelling.
func unaliased(words []string) []string {
	tctl := words[0] == "autoupdate"
	if tctl {
		words = splitFlags(words)
	}
	const space = "\x00" // words may have spaces
	line := strings.Join(words, space)
	for _, alias := range aliases {
		rest, ok := strings.CutPrefix(line, strings.ReplaceAll(alias.theirs, " ", space))
		if ok && (rest == "" || strings.Contains(space+"/", rest[:1])) {
			line = strings.ReplaceAll(alias.ours, " ", space) + rest
			break
		}
	}
	words = strings.Split(line, space)
	if !tctl {
		return words
	}
	var ours []string
	for _, word := range words {
		ours = append(ours, tctlFlag(word)...)
	}
	return ours
}

// splitFlags makes two words of --flag=value if an alias has the flag. Other flags keep their value: --force=true.
func splitFlags(words []string) (split []string) {
	for _, word := range words {
		flag, value, both := strings.Cut(word, "=")
		isAlias := func(a struct{ theirs, ours string }) bool { return slices.Contains(strings.Fields(a.theirs), flag) }
		if !both || !slices.ContainsFunc(aliases, isAlias) {
			split = append(split, word)
			continue
		}
		split = append(split, flag, value)
	}
	return split
}

// tctlFlag returns the words for a word of tctl.
func tctlFlag(word string) []string {
	for _, alias := range aliases {
		if alias.theirs == word && strings.HasPrefix(word, "--") {
			return strings.Fields(alias.ours)
		}
	}
	return []string{word}
}
