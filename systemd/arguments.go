package systemd

import (
	"cmp"
	"slices"
	"strings"
)

// An Argument of the agent's command line, as in "--config /etc/teleport.yaml".
type Argument struct {
	Name  string   // long where there is a long one
	Value string   // empty for a flag without one
	Words []string // as they stand in the command
}

// shortFlags are the short names of the agent's flags.
var shortFlags = map[string]string{"-c": "--config", "-d": "--debug", "-r": "--roles", "-t": "--token"}

// debugFlag is the short flag that has no value.
const debugFlag = "-d"

// Arguments reads the words of a command that come after "start". A word that is
// neither a flag nor the value of one, such as $OPTIONS, is an argument of that name.
func Arguments(words []string) (all []Argument) {
	n := slices.Index(words, "start")
	if n < 0 {
		return nil
	}
	var rest []string
	for _, word := range words[n+1:] {
		rest = append(rest, apart(word)...)
	}
	for words = rest; len(words) > 0; {
		a := Argument{Words: words[:1]}
		name, value, joined := strings.Cut(words[0], "=")
		if !strings.HasPrefix(words[0], "-") {
			name, value, joined = words[0], "", true
		}
		a.Name, a.Value = cmp.Or(shortFlags[name], name), value
		if !joined && len(words) > 1 && !strings.HasPrefix(words[1], "-") && !strings.HasPrefix(words[1], "$") {
			a.Value, a.Words = words[1], words[:2]
		}
		all, words = append(all, a), words[len(a.Words):]
	}
	return all
}

// apart takes short flags that are joined, as in -dc/etc/teleport.yaml, into words of their own.
func apart(word string) []string {
	flag := word[:min(len(word), 2)]
	_, known := shortFlags[flag]
	switch {
	case !known || len(word) < 3 || word[2] == '=':
		return []string{word}
	case flag == debugFlag:
		return append([]string{flag}, apart("-"+word[2:])...)
	}
	return []string{flag, word[2:]}
}

// UnitArguments reads the arguments of the command that a unit file starts; none where
// it takes more than words and spaces to read that.
func UnitArguments(unit []byte) []Argument {
	_, command, ok := execStart(unit)
	if !ok || strings.ContainsAny(command, `"'\`) {
		return nil
	}
	return Arguments(strings.Fields(command))
}

// Missing returns what is in host and not in release, by name, and what is in both with
// different values: of host's. The PID file is the release's, whose unit names it twice.
func Missing(host, release []Argument) (missing, contradicting []Argument) {
	for _, h := range host {
		n := slices.IndexFunc(release, func(r Argument) bool { return r.Name == h.Name })
		switch {
		case h.Name == "--pid-file":
		case n < 0:
			missing = append(missing, h)
		case release[n].Value != h.Value:
			contradicting = append(contradicting, h)
		}
	}
	return missing, contradicting
}

// WithArguments returns a unit file whose command has these arguments as well.
func WithArguments(unit []byte, more []Argument) []byte {
	line, _, ok := execStart(unit)
	if !ok || len(more) == 0 {
		return unit
	}
	extended := strings.TrimRight(line, " \t") + " " + strings.Join(Texts(more), " ")
	return []byte(strings.Replace(string(unit), line, extended, 1))
}

// Texts are arguments as they stand in a command.
func Texts(all []Argument) (texts []string) {
	for _, a := range all {
		texts = append(texts, strings.Join(a.Words, " "))
	}
	return texts
}

// execStart is the line of a unit file that says what it starts, and the command in it. A
// line that goes on in the next one is none.
func execStart(unit []byte) (line, command string, ok bool) {
	for line := range strings.Lines(string(unit)) {
		line = strings.TrimRight(line, "\r\n")
		if command, is := strings.CutPrefix(line, "ExecStart="); is && strings.TrimSpace(command) != "" {
			return line, command, true
		}
	}
	return "", "", false
}
