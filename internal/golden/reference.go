package golden

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Reference compares the part of a page between its two marks with a program's help: its global
// flags, the flags that many commands have, then each command and each subcommand with its other
// flags. The paragraphs of the help are in the help alone. help returns the program's text for --help after these words.
func Reference(t testing.TB, path, program string, help func(command ...string) string) {
	t.Helper()
	all := helpParts(help())
	commands := ""
	for _, name := range names(all["COMMANDS"]) {
		commands += commandText("##", help, name)
	}
	shared, commands := sharedFlags(commands)
	text := "\n## Global flags\n" + flagTable(all["GLOBAL OPTIONS"])
	if shared != "" {
		text += "\n## Flags of many commands\n\nA command's first lines say which of these it has.\n" + flagHead + shared
	}
	Part(t, path, "the help of "+program, text+commands+"\n")
}

// many is the number of commands from which a flag, with the same words, is printed once.
const many = 10

// sharedFlags moves the rows of flags that many commands have out of the tables of the commands.
func sharedFlags(commands string) (shared, rest string) {
	times := map[string]int{}
	for line := range strings.Lines(commands) {
		if strings.HasPrefix(line, "| `-") {
			if times[line]++; times[line] == many {
				shared += line
			}
		}
	}
	for line := range strings.Lines(commands) {
		if times[line] < many {
			rest += line
		}
	}
	rest = strings.ReplaceAll(rest+"\n", flagHead+"\n", "\n") // tables that are empty now
	return shared, strings.TrimSuffix(rest, "\n")
}

func commandText(heading string, help func(command ...string) string, command ...string) string {
	parts := helpParts(help(command...))
	_, does, _ := strings.Cut(strings.TrimSpace(parts["NAME"]), " - ")
	does = strings.ToUpper(does[:1]) + does[1:] + "."
	text := fmt.Sprintf("\n%s %s\n\n%s\n\n```text\n%s\n```\n", heading, strings.Join(command, " "), escape.Replace(does),
		unindented(parts["USAGE"]))
	text += flagTable(parts["OPTIONS"])
	for _, name := range names(parts["COMMANDS"]) {
		text += commandText(heading+"#", help, append(command[:len(command):len(command)], name)...)
	}
	return text
}

// helpParts divides a help text at its headings.
func helpParts(text string) map[string]string {
	parts := map[string]string{}
	heading := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutSuffix(line, ":\n"); ok && name == strings.ToUpper(name) && !strings.HasPrefix(name, " ") {
			heading = name
			continue
		}
		parts[heading] += line
	}
	return parts
}

// unindented removes the three spaces before each line of a part.
func unindented(part string) string {
	lines := strings.Split(strings.Trim(part, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "   ")
	}
	return strings.Join(lines, "\n")
}

func names(commands string) (list []string) {
	for line := range strings.Lines(commands) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasSuffix(line, ":\n") { // a heading
			list = append(list, strings.TrimSuffix(fields[0], ",")) // the others are its aliases
		}
	}
	return list
}

var (
	flagLine    = regexp.MustCompile(`^   (-.*?)  +(.*)$`)
	environment = regexp.MustCompile(` \[\$(\w+)\]$`)
	byDefault   = regexp.MustCompile(` \(default: (.*)\)$`)
	choice      = regexp.MustCompile(`\w\|[\w…]`)
	// escape keeps a help text from being read as Markdown.
	escape = strings.NewReplacer("*", `\*`, "<", "&lt;")
)

// flagHead begins a table of flags.
const flagHead = "\n| flag | what it does | default | environment |\n| --- | --- | --- | --- |\n"

func flagTable(options string) string {
	rows := ""
	for line := range strings.Lines(options) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || strings.HasPrefix(m[1], "--help") {
			continue
		}
		name, does := m[1], m[2]
		cut := func(r *regexp.Regexp) string {
			found := r.FindStringSubmatch(does)
			if found == nil {
				return ""
			}
			does = strings.TrimSuffix(does, found[0])
			return strings.Trim(found[1], `"`)
		}
		from := cut(environment)
		otherwise := cut(byDefault)
		if otherwise == "false" {
			otherwise = ""
		}
		name, _, again := strings.Cut(name, " [ ")
		if again && !strings.Contains(does, "repeated") {
			does += "; may be repeated"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, escape.Replace(does), otherwise, from)
	}
	if rows == "" {
		return ""
	}
	rows = strings.ReplaceAll(rows, "table|json|yaml, -o table|json|yaml", "table|json|yaml`, `-o")
	rows = choice.ReplaceAllStringFunc(rows, func(either string) string { return strings.Replace(either, "|", `\|`, 1) })
	return flagHead + rows
}

// CountFlags counts the flags of a help's options that stand under no heading, and those under one.
func CountFlags(options string) (plain, headed int) {
	heading := false
	for line := range strings.Lines(options) {
		switch text := strings.TrimSpace(line); {
		case text == "":
			heading = false
		case strings.HasSuffix(text, ":"):
			heading = true
		case heading:
			headed++
		default:
			plain++
		}
	}
	return plain, headed
}
