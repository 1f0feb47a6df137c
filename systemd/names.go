package systemd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"teleport-update/internal/layout"
)

// Only this file knows the names of the updater's own units, and of their files in /run: two sets of units on one host would
// have different names.

// transientPrefix begins the names of the transient units in which transactions run.
const transientPrefix = "teleport-update-switch-"

// IsOwn reports whether a service is the updater's own: the service of the timer, the recovery, or a service in which a transaction runs.
func IsOwn(service string) bool {
	var u Units
	return service == u.Service() || service == u.Recovery() || strings.HasPrefix(service, transientPrefix)
}

// Timer is the name of the timer.
func (u Units) Timer() string { return "teleport-update.timer" }

// Service is the name of the service that the timer starts.
func (u Units) Service() string { return "teleport-update.service" }

// Recovery is the name of the recovery at boot.
func (u Units) Recovery() string { return "teleport-update-recover.service" }

// runDirectory is RuntimeDirectory= of the service.
func (u Units) runDirectory() string { return strings.TrimPrefix(layout.RunDir, "/run/") }

// named returns the units without their content, which depends on the folders.
func (u Units) named() []UnitFile {
	return []UnitFile{
		{Name: u.Recovery(), WantedBy: "multi-user.target", template: "teleport-update-recover.service.tmpl"},
		{Name: u.Service(), template: "teleport-update.service.tmpl"},
		{Name: u.Timer(), WantedBy: "timers.target", template: "teleport-update.timer.tmpl"},
	}
}

// dropInNames returns the names whose folders of drop-ins add to a unit, in the order of their precedence (systemd.unit(5)): the
// unit's name, its beginnings up to a dash, as "a-.service" of "a-b.service", the names of its aliases, and its type.
func dropInNames(name string, dirs []string) (all []string) {
	kind := filepath.Ext(name)
	for _, n := range append([]string{name}, aliasesOf(name, dirs)...) {
		all = append(all, n)
		stem := strings.TrimSuffix(n, kind)
		for i := len(stem) - 2; i > 0; i-- {
			if stem[i] == '-' {
				all = append(all, stem[:i+1]+kind)
			}
		}
	}
	return append(all, strings.TrimPrefix(kind, "."))
}

// aliasesOf returns the other names of a unit: links in the folders of units that lead to its name. A folder that cannot be read counts
// as empty. The folders of packages, which have hundreds of units, are left out: each run of the timer asks, and Alias= makes its links
// elsewhere.
func aliasesOf(name string, dirs []string) (all []string) {
	for _, dir := range dirs {
		if slices.Contains(layout.PackageUnitDirs, dir) {
			continue
		}
		entries, err := within(func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
		if err != nil {
			continue
		}
		for _, e := range entries {
			alias := e.Type()&os.ModeSymlink != 0 && e.Name() != name && filepath.Ext(e.Name()) == filepath.Ext(name)
			if !alias {
				continue
			}
			if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && filepath.Base(target) == name {
				all = append(all, e.Name())
			}
		}
	}
	return all
}

// glob returns the files that a pattern matches according to glob(7): "[!a]" is any character but "a", and only a dot in
// the pattern matches a dot at the beginning of a name.
func glob(pattern string) ([]string, error) {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	found, err := filepath.Glob(pattern)
	return slices.DeleteFunc(found, func(path string) bool { return hiddenFrom(pattern, path) }), err
}

// hiddenFrom reports whether a name in a path begins with a dot and the pattern has a wildcard in its place.
func hiddenFrom(pattern, path string) bool {
	asked, names := strings.Split(pattern, "/"), strings.Split(path, "/")
	slices.Reverse(asked) // from the end: a pattern may have two slashes in a row
	slices.Reverse(names)
	for i, name := range names[:min(len(names), len(asked))] {
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(asked[i], ".") {
			return true
		}
	}
	return false
}

var errBraces = errors.New("a pattern with braces")

// globExists evaluates PathExistsGlob=. systemd expands braces in it, and this program does not.
func globExists(pattern string) (bool, error) {
	if strings.Contains(pattern, "{") {
		return false, errBraces
	}
	found, err := glob(pattern)
	return len(found) > 0, err
}

// leftOut are the endings of the names of files that systemd ignores in a folder (path-util.c, hidden_or_backup_file).
var leftOut = []string{"~", ".rpmnew", ".rpmsave", ".rpmorig", ".dpkg-old", ".dpkg-new", ".dpkg-tmp", ".dpkg-dist", ".dpkg-bak",
	".dpkg-backup", ".dpkg-remove", ".ucf-new", ".ucf-old", ".ucf-dist", ".swp", ".bak", ".old", ".new"}

// passedOver reports whether DirectoryNotEmpty= ignores a file in a folder.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"lost+found", "aquota.user", "aquota.group"}, name) ||
		slices.ContainsFunc(leftOut, func(end string) bool { return strings.HasSuffix(name, end) })
}

// escapePath is systemd-escape(1) --path. The function of go-systemd writes a line feed with one
// digit.
func escapePath(dir string) string {
	var b strings.Builder
	for i, c := range []byte(strings.Trim(dir, "/")) {
		switch {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_':
			b.WriteByte(c)
		case c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// MountUnit names the unit that mounts something at a path. The path has no links in it.
func MountUnit(path string) string { return escapePath(path) + ".mount" }

// unitLine is a line of a unit file, with the lines that continue it.
type unitLine struct {
	text string
	end  int // offset in the file at which a word could be added to it
}

// UnitLines returns the lines of a unit file without comments. A line that another one continues has the text of both.
func UnitLines(content string) (all []string) {
	for _, line := range unitLines(content) {
		all = append(all, line.text)
	}
	return all
}

// unitLines returns the lines of a unit file without comments. A line that ends with a backslash
// continues in the next line that is no comment (systemd.syntax(7)).
func unitLines(content string) (all []unitLine) {
	goesOn := false
	offset := 0
	for line := range strings.Lines(content) {
		begin := offset
		offset += len(line)
		line = strings.TrimRight(line, "\r\n")
		if text := strings.TrimLeft(line, " \t"); strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";") {
			continue
		}
		slashes := len(line) - len(strings.TrimRight(line, `\`))
		continues := slashes%2 == 1
		line = line[:len(line)-slashes%2]
		end := begin + len(strings.TrimRight(line, " \t"))
		if continues {
			line += " "
		}
		if goesOn {
			last := &all[len(all)-1]
			last.text, last.end = last.text+line, end
		} else {
			all = append(all, unitLine{line, end})
		}
		goesOn = continues
	}
	for i := range all {
		all[i].text = strings.TrimSpace(all[i].text)
	}
	return all
}

// words splits a line as systemd does: at spaces that are not quoted. take reads the escape after a
// backslash, and returns its text and the rest of the line.
func words(line string, take func(string) (text, rest string)) (all []string) {
	var word strings.Builder
	quote, inWord := byte(0), false
	for line != "" {
		first := line[0]
		rest := line[1:]
		switch {
		case first == '\\' && rest != "":
			text, after := take(rest)
			word.WriteString(text)
			rest, inWord = after, true
		case quote == 0 && (first == '"' || first == '\''):
			quote, inWord = first, true
		case quote != 0 && first == quote:
			quote = 0
		case quote == 0 && strings.IndexByte(" \t\r\n", first) >= 0:
			if inWord {
				all = append(all, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(first)
			inWord = true
		}
		line = rest
	}
	if inWord {
		all = append(all, word.String())
	}
	return all
}

// unescaped takes the character that a backslash protects.
func unescaped(s string) (text, rest string) {
	_, size := utf8.DecodeRuneInString(s)
	return s[:size], s[size:]
}

// letters are the escapes of one letter.
var letters = map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", 's': " ",
	'\\': `\`, '"': `"`, '\'': "'"}

// numbers are the escapes of a number: the count of digits, and their base.
var numbers = map[byte][2]int{'x': {2, 16}, 'u': {4, 16}, 'U': {8, 16}}

// escaped takes a character by its escape, as in C. Other text stays as it is.
func escaped(s string) (text, rest string) {
	if text, ok := letters[s[0]]; ok {
		return text, s[1:]
	}
	kind, digits := numbers[s[0]], s[1:]
	if kind[0] == 0 {
		kind, digits = [2]int{3, 8}, s
	}
	if len(digits) >= kind[0] {
		n, err := strconv.ParseUint(digits[:kind[0]], kind[1], 32)
		if err == nil && slices.Contains([]byte("uU"), s[0]) {
			return string(rune(n)), digits[kind[0]:]
		}
		if err == nil && n <= 0xff {
			return string([]byte{byte(n)}), digits[kind[0]:]
		}
	}
	return `\`, s
}
