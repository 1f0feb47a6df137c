package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/regular"
)

// maxUnitFile is far more than a unit file has, in bytes.
const maxUnitFile = 1 << 20

// A ServiceCommand is what the files of a service say it is started with, whether or not systemd
// runs and has read them.
type ServiceCommand struct {
	Words       []string // of the first command, the program first; variables are replaced
	Environment map[string]string
	// Files are the environment files that were read, and Variables says that the words had
	// variables, which may come from them.
	Files     []string
	Variables bool
	Found     bool // there is a unit file
}

// ReadService reads the unit file that systemd would use, from the first of some folders that has
// it, and what drop-ins in all of them add. Of two drop-ins of one name the one of the earlier folder
// counts. No such unit is no error: then there are no words.
func ReadService(name string, dirs []string) (ServiceCommand, error) {
	var s settings
	for _, dir := range dirs {
		content, err := readServiceFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return ServiceCommand{}, err
		}
		s.add(content)
		s.found = true
		break
	}
	files, err := dropIns(name, dirs)
	if err != nil {
		return ServiceCommand{}, err
	}
	for _, file := range files {
		content, err := readServiceFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ServiceCommand{}, err
		}
		s.add(content)
	}
	return s.command()
}

// readServiceFile reads a file of a unit. One that is masked says nothing, and what is no file, as a
// folder of that name, is none to systemd either.
func readServiceFile(path string) ([]byte, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil && target == "/dev/null" {
		return nil, nil
	}
	content, err := regular.Read(path, maxUnitFile, 0)
	if _, odd := errors.AsType[*regular.OddError](err); odd {
		return nil, fs.ErrNotExist
	}
	return content, err
}

// dropIns are the files that add to a unit, in the order in which systemd reads them.
func dropIns(name string, dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, name+".d", "*.conf"))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			same := func(f string) bool { return filepath.Base(f) == filepath.Base(file) }
			if !slices.ContainsFunc(files, same) {
				files = append(files, file)
			}
		}
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files, nil
}

// settings are what the section [Service] says, as far as the command goes.
type settings struct {
	execStart, environment, files []string
	found                         bool
}

// add reads a file: an assignment adds to the one before, and an empty one takes all of it back.
func (s *settings) add(content []byte) {
	section := ""
	text := strings.ReplaceAll(string(content), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section != "[Service]" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		into := map[string]*[]string{"ExecStart": &s.execStart, "Environment": &s.environment,
			"EnvironmentFile": &s.files}[strings.TrimSpace(name)]
		switch value = strings.TrimSpace(value); {
		case into == nil:
		case value == "":
			*into = nil
		default:
			*into = append(*into, value)
		}
	}
}

func (s settings) command() (ServiceCommand, error) {
	c := ServiceCommand{Environment: map[string]string{}, Found: s.found}
	for _, line := range s.environment {
		c.set(words(line))
	}
	for _, file := range s.files {
		path, optional := strings.CutPrefix(file, "-")
		content, err := regular.Read(path, maxUnitFile, 0)
		if errors.Is(err, fs.ErrNotExist) && optional {
			continue
		}
		if err != nil {
			return c, fmt.Errorf("read the environment file of a unit: %w", err)
		}
		c.Files = append(c.Files, path)
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
				name, value, _ := strings.Cut(line, "=")
				c.Environment[strings.TrimSpace(name)] = strings.Join(words(value), " ")
			}
		}
	}
	if len(s.execStart) == 0 {
		return c, nil
	}
	for _, word := range words(strings.TrimLeft(s.execStart[0], "-@:+!")) {
		c.Variables = c.Variables || strings.Contains(word, "$")
		c.Words = append(c.Words, c.replace(word)...)
	}
	return c, nil
}

func (c ServiceCommand) set(assignments []string) {
	for _, a := range assignments {
		if name, value, ok := strings.Cut(a, "="); ok {
			c.Environment[name] = value
		}
	}
}

// replace puts in what variables stand for: a word that is one variable becomes its words, and
// what is in braces stays one word (systemd.service(5), "Command lines").
func (c ServiceCommand) replace(word string) []string {
	if name, ok := strings.CutPrefix(word, "$"); ok && !strings.HasPrefix(name, "{") && !strings.HasPrefix(name, "$") {
		return strings.Fields(c.Environment[name])
	}
	for name, value := range c.Environment {
		word = strings.ReplaceAll(word, "${"+name+"}", value)
	}
	return []string{strings.NewReplacer("$$", "$", "%%", "%").Replace(word)}
}

// words splits a line as systemd does: at spaces that are not quoted.
func words(line string) (all []string) {
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			all = append(all, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return all
}
