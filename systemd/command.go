package systemd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"teleport-update/internal/regular"
)

// An Argument of the agent's command line, as in "--config /etc/teleport.yaml".
type Argument struct {
	Name  string   // the long name if there is one
	Value string   // empty for a flag without one
	Words []string // as they stand in the command
}

// shortFlags are the short names of the agent's flags.
var shortFlags = map[string]string{"-c": "--config", "-d": "--debug", "-r": "--roles", "-t": "--token"}

// debugFlag is the short flag that has no value.
const debugFlag = "-d"

// Arguments reads the words of a command that come after "start". A word that is neither a flag
// nor a flag's value, such as $OPTIONS, is an argument of that name.
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

// apart splits short flags that are joined, as in -dc/etc/teleport.yaml, into single words.
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

// Plain reports whether any command can have the argument's words as they are, without quotes.
func (a Argument) Plain() bool {
	needsQuotes := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`"'\`, r)
	}
	return !slices.ContainsFunc(a.Words, func(word string) bool { return word == "" || strings.ContainsFunc(word, needsQuotes) })
}

// UnitArguments are the arguments of the command that a unit file starts.
func UnitArguments(unit []byte) []Argument { return Arguments(UnitCommand(unit)) }

// UnitCommand returns the words of the command that a unit file starts, as systemd reads them, the program first;
// none for a file without a command. Variables and specifiers stay as in the file: another unit with the same
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

// Missing returns host's arguments whose names release lacks, and host's arguments whose values
// differ from release's. The PID file is left out: the release's unit names it twice.
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

// WithArguments returns a unit file whose command has these arguments as well. They have to be plain.
func WithArguments(unit []byte, more []Argument) []byte {
	end, ok := commandEnd(string(unit))
	if !ok || len(more) == 0 {
		return unit
	}
	rest := bytes.TrimLeft(unit[end:], " \t")
	return slices.Concat(unit[:end], []byte(" "+strings.Join(Texts(more), " ")), rest)
}

// commandEnd returns the offset in a unit file at which its first command ends; ok is false if the file has no command.
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

// settings are the assignments of the section [Service] that the command depends on.
type settings struct {
	execStart, environment, files, unset []string
	specifiers                           *strings.Replacer
	found                                bool
}

// add reads a file: an assignment adds to the earlier ones, and an empty one takes all of them back.
func (s *settings) add(content []byte) {
	for name, value := range serviceSettings(string(content)) {
		into := map[string]*[]string{"ExecStart": &s.execStart, "Environment": &s.environment,
			"EnvironmentFile": &s.files, "UnsetEnvironment": &s.unset}[name]
		switch {
		case into == nil:
		case value.text == "":
			*into = nil
		default:
			*into = append(*into, value.text)
		}
	}
}

// serviceSettings are the assignments of the section [Service] of a unit file, by their names.
func serviceSettings(content string) iter.Seq2[string, unitLine] {
	return func(yield func(string, unitLine) bool) {
		section := ""
		for _, line := range unitLines(content) {
			if strings.HasPrefix(line.text, "[") {
				section = line.text
			}
			name, value, ok := strings.Cut(line.text, "=")
			if !ok || section != "[Service]" {
				continue
			}
			if !yield(strings.TrimSpace(name), unitLine{strings.TrimSpace(value), line.end}) {
				return
			}
		}
	}
}

func (s *settings) command() (ServiceCommand, error) {
	c := ServiceCommand{Environment: map[string]string{}, Found: s.found}
	for _, line := range s.environment {
		for _, a := range words(line, escaped) {
			if name, value, ok := strings.Cut(s.specifiers.Replace(a), "="); ok {
				c.Environment[name] = value
			}
		}
	}
	for _, file := range s.files {
		if err := c.readFiles(s.specifiers.Replace(file)); err != nil {
			return c, fmt.Errorf("read the environment file of a unit: %w", err)
		}
	}
	for _, line := range s.unset {
		for _, a := range words(line, escaped) {
			c.unset(s.specifiers.Replace(a))
		}
	}
	raw, literal := s.words()
	for _, word := range raw {
		c.add(s.specifiers.Replace(word), literal)
	}
	return c, nil
}

// unset removes a variable; NAME=VALUE removes it only if it has that value.
func (c *ServiceCommand) unset(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || c.Environment[name] == value {
		delete(c.Environment, name)
	}
}

// add adds a word of the command. systemd does not replace variables in it if it is literal.
func (c *ServiceCommand) add(word string, literal bool) {
	if literal {
		c.Words = append(c.Words, word)
		return
	}
	c.Variables = c.Variables || strings.Contains(word, "$")
	c.Words = append(c.Words, c.replace(word)...)
}

// words returns the words of the first command, the program first, with variables and specifiers as written. literal
// reports that systemd does not replace variables in them.
func (s *settings) words() (all []string, literal bool) {
	if len(s.execStart) == 0 {
		return nil, false
	}
	line := strings.TrimLeft(s.execStart[0], commandPrefixes)
	prefixes := strings.TrimSuffix(s.execStart[0], line)
	all = words(line, escaped)
	if len(all) > 1 && strings.Contains(prefixes, "@") {
		all = slices.Delete(all, 1, 2) // the program's name for itself, not an argument
	}
	return all, strings.Contains(prefixes, ":")
}

// commandPrefixes come before the program in a command line (systemd.service(5), "Special executable
// prefixes").
const commandPrefixes = "-@:+!|"

// readFiles reads one line of EnvironmentFile=, which may be a pattern.
func (c *ServiceCommand) readFiles(pattern string) error {
	pattern, optional := strings.CutPrefix(pattern, "-")
	files, err := glob(pattern)
	if err != nil || len(files) == 0 {
		files = []string{pattern}
	}
	for _, path := range files {
		content, err := regular.Read(path, maxUnitFile, 0)
		if errors.Is(err, fs.ErrNotExist) && optional {
			continue
		}
		if err != nil {
			return err
		}
		c.Files = append(c.Files, path)
		readEnvironment(string(content), c.Environment)
	}
	return nil
}

// replace replaces variables by their values: a word that is one variable becomes its words, and a
// variable in braces stays part of one word (systemd.service(5), "Command lines").
func (c *ServiceCommand) replace(word string) []string {
	if name, ok := strings.CutPrefix(word, "$"); ok && !strings.HasPrefix(name, "{") && !strings.HasPrefix(name, "$") {
		return words(c.Environment[name], unescaped)
	}
	var b strings.Builder
	for word != "" {
		before, after, found := strings.Cut(word, "$")
		b.WriteString(before)
		name, rest, braces := strings.Cut(strings.TrimPrefix(after, "{"), "}")
		switch {
		case !found:
			return []string{b.String()}
		case strings.HasPrefix(after, "$"):
			b.WriteString("$")
			word = after[1:]
		case strings.HasPrefix(after, "{") && braces:
			b.WriteString(c.Environment[name])
			word = rest
		default:
			b.WriteString("$")
			word = after
		}
	}
	return []string{b.String()}
}

// specifiersOf replaces the specifiers that depend only on the unit's name and on systemd being
// the host's (systemd.unit(5), "Specifiers"). Others stay as they are.
func specifiersOf(name string) *strings.Replacer {
	whole := strings.TrimSuffix(name, filepath.Ext(name))
	prefix, _, _ := strings.Cut(whole, "@")
	return strings.NewReplacer("%%", "%", "%n", name, "%N", whole, "%p", prefix, "%t", "/run", "%S", "/var/lib", "%C", "/var/cache",
		"%L", "/var/log", "%E", "/etc")
}

// readEnvironment adds the variables of an environment file to into, as systemd reads the file
// (systemd.exec(5), "EnvironmentFile="): not as a shell does.
func readEnvironment(content string, into map[string]string) {
	for content != "" {
		content = strings.TrimLeft(content, " \t\r\n")
		if strings.HasPrefix(content, "#") || strings.HasPrefix(content, ";") {
			content = afterComment(content)
			continue
		}
		line, _, _ := strings.Cut(content, "\n")
		name, _, ok := strings.Cut(line, "=")
		if !ok {
			content = strings.TrimPrefix(content[len(line):], "\n")
			continue
		}
		into[strings.TrimSpace(name)], content = environmentValue(content[len(name)+1:])
	}
}

// afterComment returns the content after a comment. A backslash before the end of a line continues the comment.
func afterComment(content string) string {
	for content != "" {
		line, rest, _ := strings.Cut(content, "\n")
		content = rest
		if !strings.HasSuffix(line, `\`) {
			break
		}
	}
	return content
}

// environmentValue reads a value to the end of its line, and returns the rest after it.
func environmentValue(content string) (value, rest string) {
	var b strings.Builder
	quote, inValue := byte(0), false
	keep := 0 // the length without spaces at the end
	for i := 0; i < len(content); i++ {
		c := content[i]
		next := byte('\n')
		if i+1 < len(content) {
			next = content[i+1]
		}
		switch {
		case quote == 0 && (c == '\n' || c == '\r'):
			return b.String()[:keep], content[i+1:]
		case quote == 0 && !inValue && (c == '"' || c == '\''):
			quote = c
			continue
		case quote != 0 && c == quote:
			quote = 0
			continue
		case c == '\\' && quote != '\'':
			i++
			inValue = inValue || quote == 0
			b.WriteString(escapedValue(next, quote == '"'))
			keep = b.Len()
			continue
		}
		space := quote == 0 && strings.IndexByte(" \t", c) >= 0
		if space && !inValue {
			continue
		}
		inValue = inValue || quote == 0
		b.WriteByte(c)
		if !space {
			keep = b.Len()
		}
	}
	return b.String()[:keep], ""
}

// escapedValue returns the text for a backslash and the character after it. A backslash at the end of a line joins it with
// the next one; between double quotes, a backslash before most characters is kept.
func escapedValue(next byte, quoted bool) string {
	switch {
	case next == '\n':
		return ""
	case quoted && strings.IndexByte("\"\\`$", next) < 0:
		return "\\" + string([]byte{next})
	}
	return string([]byte{next})
}
