package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/regular"
)

// settings are what the section [Service] says, as far as the command goes.
type settings struct {
	execStart, environment, files, unset []string
	specifiers                           *strings.Replacer
	found                                bool
}

// add reads a file: an assignment adds to the one before, and an empty one takes all of it back.
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

// unset takes a variable out, for NAME=VALUE if it has that value.
func (c *ServiceCommand) unset(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || c.Environment[name] == value {
		delete(c.Environment, name)
	}
}

// add adds a word of the command, of which systemd leaves variables alone if it is literal.
func (c *ServiceCommand) add(word string, literal bool) {
	if literal {
		c.Words = append(c.Words, word)
		return
	}
	c.Variables = c.Variables || strings.Contains(word, "$")
	c.Words = append(c.Words, c.replace(word)...)
}

// words are those of the first command, the program first, with variables and specifiers as they stand there. literal
// says that systemd leaves variables in them alone.
func (s *settings) words() (all []string, literal bool) {
	if len(s.execStart) == 0 {
		return nil, false
	}
	line := strings.TrimLeft(s.execStart[0], commandPrefixes)
	prefixes := strings.TrimSuffix(s.execStart[0], line)
	all = words(line, escaped)
	if len(all) > 1 && strings.Contains(prefixes, "@") {
		all = slices.Delete(all, 1, 2) // what the program is called, not an argument
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

// replace puts in what variables stand for: a word that is one variable becomes its words, and
// what is in braces stays one word (systemd.service(5), "Command lines").
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

// specifiersOf replaces the specifiers that depend on nothing but the unit's name and on systemd
// being the host's (systemd.unit(5), "Specifiers"). Others stay as they are.
func specifiersOf(name string) *strings.Replacer {
	whole := strings.TrimSuffix(name, filepath.Ext(name))
	prefix, _, _ := strings.Cut(whole, "@")
	return strings.NewReplacer("%%", "%", "%n", name, "%N", whole, "%p", prefix, "%t", "/run", "%S", "/var/lib", "%C", "/var/cache",
		"%L", "/var/log", "%E", "/etc")
}
