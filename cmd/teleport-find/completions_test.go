package main

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/golden"
)

// helpPage is what the help of a command says that can be typed after it.
type helpPage struct {
	command  string // empty: of the program itself
	usage    string
	commands []string
	flags    []helpFlag
}

type helpFlag struct {
	name, short string
	value       string // what it takes, such as FILE or text|json; empty for nothing
}

var (
	flagLine  = regexp.MustCompile(`^   --([a-z-]+)(?: ([^ ,]+))?(?:, -([a-z])(?: [^ ]+)?)?(?:, --[a-z-]+(?: [^ ]+)?)*(?: \[ --[a-z-]+ [^ ]+ \])?(?:  |$)`)
	shortLine = regexp.MustCompile(`^   --([a-z-]+), -([a-z])  `)
)

// helpPages reads the help of the program and of all its commands.
func helpPages(t *testing.T) (pages []helpPage) {
	t.Helper()
	var read func(words []string, usage string)
	read = func(words []string, usage string) {
		var out, errors bytes.Buffer
		if code := run(append(append([]string{"teleport-find"}, words...), "--help"), &out, &errors); code != 0 {
			t.Fatalf("%q: %s", words, errors.String())
		}
		page, section := helpPage{command: strings.Join(words, " "), usage: usage}, ""
		usages := make(map[string]string)
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			switch {
			case line != "" && !strings.HasPrefix(line, " "):
				section = line
			case section == "COMMANDS:" && strings.TrimSpace(line) != "" && !strings.HasSuffix(line, ":"):
				name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				name = strings.TrimSuffix(name, ",")
				page.commands = append(page.commands, name)
				usages[name] = strings.TrimSpace(rest)
			case strings.HasSuffix(section, "OPTIONS:"):
				if m := shortLine.FindStringSubmatch(line); m != nil {
					page.flags = append(page.flags, helpFlag{name: m[1], short: m[2]})
				} else if m := flagLine.FindStringSubmatch(line); m != nil {
					page.flags = append(page.flags, helpFlag{name: m[1], value: m[2], short: m[3]})
				} else if strings.HasPrefix(strings.TrimSpace(line), "--") {
					t.Fatalf("%q has a flag that is not understood: %q", words, line)
				}
			}
		}
		pages = append(pages, page)
		for _, name := range page.commands {
			read(append(slices.Clone(words), name), usages[name])
		}
	}
	read(nil, "")
	return pages
}

func (p *helpPage) words() (list []string) {
	list = slices.Clone(p.commands)
	for _, f := range p.flags {
		list = append(list, "--"+f.name)
	}
	return list
}

// choices are the values of a flag that takes one of some.
func (f helpFlag) choices() []string {
	if !strings.Contains(f.value, "|") || strings.ToLower(f.value) != f.value {
		return nil
	}
	return strings.Split(strings.TrimSuffix(f.value, "|…"), "|")
}

func (f helpFlag) takesFile() bool {
	return slices.Contains([]string{"FILE", "DIR", "PATH"}, f.value)
}

// The completions of each shell have all commands and flags, for they are written from the help.
func TestTheCompletionsAreThoseOfTheHelp(t *testing.T) {
	pages := helpPages(t)
	if len(pages) < 30 || len(pages[0].commands) < 18 {
		t.Fatalf("only %d pages were read", len(pages))
	}
	for shell, text := range map[string]string{"bash": bashText(pages), "zsh": zshText(pages), "fish": fishText(pages)} {
		golden.File(t, filepath.Join("..", "..", "packaging", "teleport-find", "completions", shell), text)
	}
}

const written = "completion for teleport-find, written from its help by go test ./cmd/teleport-find -run Completions -update\n"

func bashText(pages []helpPage) string {
	var b strings.Builder
	takes := valued(pages)
	choices, files := make(map[string][]string), make(map[string]bool)
	for _, p := range pages {
		for _, f := range p.flags {
			for _, name := range []string{"--" + f.name, "-" + f.short} {
				if name == "-" || f.value == "" {
					continue
				}
				files[name] = files[name] || f.takesFile()
				for _, choice := range f.choices() { // of several commands
					if !slices.Contains(choices[name], choice) {
						choices[name] = append(choices[name], choice)
					}
				}
			}
		}
	}
	b.WriteString("# bash " + written + `
_teleport_find() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case $command:${COMP_WORDS[i]} in
`)
	fmt.Fprintf(&b, "\t\t%s) ((i++)) ;;\n", strings.Join(takes.patterns(), " | "))
	b.WriteString("\t\t*:-*) ;;\n\t\t*)\n\t\t\tcase $command in\n")
	var groups []string
	for _, p := range pages[1:] {
		if len(p.commands) > 0 {
			groups = append(groups, p.command)
		}
	}
	fmt.Fprintf(&b, "\t\t\t'' | %s) command+=${command:+ }${COMP_WORDS[i]} ;;\n\t\t\tesac\n\t\t\t;;\n\t\tesac\n\tdone\n", strings.Join(groups, " | "))
	b.WriteString("\tCOMPREPLY=()\n\tcase $command:$prev in\n")
	for _, name := range sortedKeys(choices) {
		fmt.Fprintf(&b, "\t%s) words='%s' ;;\n", takes[name], strings.Join(choices[name], " "))
	}
	for _, name := range sortedKeys(takes) {
		switch {
		case choices[name] != nil:
		case files[name]:
			fmt.Fprintf(&b, "\t%s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n", takes[name])
		default:
			fmt.Fprintf(&b, "\t%s) return ;;\n", takes[name])
		}
	}
	b.WriteString("\t*)\n\t\tcase $command in\n")
	for _, p := range pages {
		fmt.Fprintf(&b, "\t\t'%s') words='%s' ;;\n", p.command, strings.Join(p.words(), " "))
	}
	b.WriteString("\t\tesac\n\t\t;;\n\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n\ncomplete -F _teleport_find teleport-find\n")
	return b.String()
}

// valuedFlags has a shell's pattern of COMMAND:FLAG for each flag that takes a value.
type valuedFlags map[string]string

// valued finds the flags that take a value. A flag that takes one after some commands only has these commands in its pattern:
// mirror takes --newest N, set-version takes --newest.
func valued(pages []helpPage) valuedFlags {
	commands, bare := make(map[string][]string), make(map[string]bool)
	for _, p := range pages {
		for _, f := range p.flags {
			for _, name := range []string{"--" + f.name, "-" + f.short} {
				switch {
				case name == "-":
				case f.value == "":
					bare[name] = true
				default:
					commands[name] = append(commands[name], "'"+p.command+"':"+name)
				}
			}
		}
	}
	takes := make(valuedFlags)
	for name, list := range commands {
		if takes[name] = "*:" + name; bare[name] {
			takes[name] = strings.Join(list, "|")
		}
	}
	return takes
}

func (f valuedFlags) patterns() []string { return slices.Sorted(maps.Values(f)) }

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func zshText(pages []helpPage) string {
	var b strings.Builder
	b.WriteString("#compdef teleport-find\n# zsh " + written + `
_teleport-find() {
	local -a found
	local word command= takes=0
	for word in ${words[2,CURRENT-1]}; do
		if ((takes)); then takes=0; continue; fi
		case $command:$word in
`)
	fmt.Fprintf(&b, "\t\t%s) takes=1 ;;\n", strings.Join(valued(pages).patterns(), "|"))
	b.WriteString("\t\t*:-*) ;;\n\t\t*) [[ -z $command || $command == (")
	var groups []string
	for _, p := range pages[1:] {
		if len(p.commands) > 0 {
			groups = append(groups, p.command)
		}
	}
	b.WriteString(strings.Join(groups, "|") + ") ]] && command=\"${command:+$command }$word\" ;;\n\t\tesac\n\tdone\n\tif ((takes)); then _files; return; fi\n\tcase $command in\n")
	for _, p := range pages {
		fmt.Fprintf(&b, "\t'%s') found=(%s) ;;\n", p.command, strings.Join(p.words(), " "))
	}
	b.WriteString("\tesac\n\tcompadd -a found\n}\n\nif [[ $funcstack[1] == _teleport-find ]]; then _teleport-find \"$@\"; else compdef _teleport-find teleport-find; fi\n")
	return b.String()
}

func fishText(pages []helpPage) string {
	var b strings.Builder
	b.WriteString("# fish " + written + "\ncomplete -c teleport-find -f\n")
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `\'`) + "'" }
	for _, p := range pages {
		condition := "__fish_use_subcommand"
		if p.command != "" {
			first, second, nested := strings.Cut(p.command, " ")
			condition = "__fish_seen_subcommand_from " + first
			if nested {
				condition += "; and __fish_seen_subcommand_from " + second
			}
		}
		for _, name := range p.commands {
			usage := ""
			for _, of := range pages {
				if of.command == strings.TrimSpace(p.command+" "+name) {
					usage = of.usage
				}
			}
			fmt.Fprintf(&b, "complete -c teleport-find -n %s -a %s -d %s\n", quoted(condition), name, quoted(usage))
		}
		for _, f := range p.flags {
			line := fmt.Sprintf("complete -c teleport-find -n %s -l %s", quoted(condition), f.name)
			if f.short != "" {
				line += " -s " + f.short
			}
			switch {
			case f.choices() != nil:
				line += " -x -a " + quoted(strings.Join(f.choices(), " "))
			case f.takesFile():
				line += " -r -F"
			case f.value != "":
				line += " -x"
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
