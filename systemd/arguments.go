package systemd

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
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

// Plain reports whether the argument can be written into any command as its words are, without quotes.
func (a Argument) Plain() bool {
	needsQuotes := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`"'\`, r)
	}
	return !slices.ContainsFunc(a.Words, func(word string) bool { return word == "" || strings.ContainsFunc(word, needsQuotes) })
}

// UnitArguments are the arguments of the command that a unit file starts.
func UnitArguments(unit []byte) []Argument { return Arguments(UnitCommand(unit)) }

// UnitCommand reads the words of the command that a unit file starts as systemd reads them, the program first; a file
// without a command has none. Variables and specifiers stand in them as in the file: another unit with the same
// environment has the same arguments.
func UnitCommand(unit []byte) []string {
	var s settings
	s.add(unit)
	words, literal := s.words()
	if literal {
		for n := range words {
			words[n] = strings.ReplaceAll(words[n], "$", "$$")
		}
	}
	return words
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

// WithArguments returns a unit file whose command has these arguments as well. They are to be plain.
func WithArguments(unit []byte, more []Argument) []byte {
	end, ok := commandEnd(string(unit))
	if !ok || len(more) == 0 {
		return unit
	}
	rest := bytes.TrimLeft(unit[end:], " \t")
	return slices.Concat(unit[:end], []byte(" "+strings.Join(Texts(more), " ")), rest)
}

// commandEnd is the offset in a unit file at which its first command ends; ok is false if it has none.
func commandEnd(unit string) (end int, ok bool) {
	for name, value := range serviceSettings(unit) {
		switch {
		case name != "ExecStart":
		case value.text == "":
			ok = false
		case !ok:
			end, ok = value.end, true
		}
	}
	return end, ok
}

// Texts are arguments as they stand in a command.
func Texts(all []Argument) (texts []string) {
	for _, a := range all {
		texts = append(texts, strings.Join(a.Words, " "))
	}
	return texts
}
