package decision

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"teleport-update/internal/failure"
)

// longest is the length of a line of a condition, in characters, without the commands in it.
const longest = 240

var (
	stops   = regexp.MustCompile(`: |; |\. |[:;.,] *$`)
	command = regexp.MustCompile("`[^`]+`")
)

// clause returns a text up to its first stop.
func clause(text string) string {
	if at := stops.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return short(text)
}

// rest returns a text after its first clause.
func rest(text string) string {
	if at := stops.FindStringIndex(text); at != nil {
		return text[at[1]:]
	}
	return ""
}

// because returns a clause with its cause in brackets: errors of other programs have several parts.
func because(what, cause string) string {
	for _, outcome := range []string{failure.Aftermath("").String(), "the agent stays on"} {
		cause, _, _ = strings.Cut(cause, "; "+outcome)
	}
	return short(what + " (" + inOne(cause) + ")")
}

// inOne returns the clauses of a text as one.
func inOne(text string) string { return stops.ReplaceAllString(strings.TrimRight(text, ":;,. "), ", ") }

func short(text string) string {
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest-1]) + "…"
}

// step returns the first clause of an advice that has a command, or the command alone if the clause has two. An advice without a command is
// returned as it is, and an empty one is what helps against a condition of this type.
func step(advice string, about Type) string {
	if advice == "" {
		advice = helps[about]
	}
	words := short(inOne(advice))
	if advice == helps[about] {
		words = clause(advice)
	}
	for text := advice; text != ""; text = rest(text) {
		is := text
		if at := stops.FindStringIndex(text); at != nil {
			is = text[:at[0]]
		}
		commands := command.FindAllString(is, -1)
		if len(commands) == 0 {
			continue
		}
		words = is
		outside := utf8.RuneCountInString(is) - utf8.RuneCountInString(commands[0])
		if len(commands) > 1 || outside > longest || strings.Count(is, "(") != strings.Count(is, ")") {
			words = commands[0]
		}
		break
	}
	return strings.ToLower(words[:1]) + words[1:]
}
