// Package canary writes a unit that shows, without a stop of the service, whether systemd would start the service again.
//
// The canary has the settings of the service that decide about one process: its user, environment, view of files, limits and
// protections. It starts a program that prints its version and ends. Nothing else of the service comes along: a setting that is not
// in the list of this package is left out, so that a canary neither ends the host nor starts, stops or removes anything.
//
// The package reads and writes texts only. systemd.Conn.Try starts a canary.
package canary

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"teleport-update/systemd"
)

// Service is a service as its files describe it.
type Service struct {
	Name  string         // "teleport.service"
	Unit  systemd.File   // the unit file
	After []systemd.File // its drop-ins, in the order in which systemd applies them
}

// Trial is what a canary starts.
type Trial struct {
	Program string // absolute path; it is started with the argument "version"
	Output  string // path of a pipe that takes what the program prints
}

// TimeLimit is how many seconds the program may take.
const TimeLimit = 30

// Unit returns the file of a canary for a service. The drop-ins of the service are in it.
func Unit(s Service, t Trial) []byte {
	settings := settingsOf(s)
	own := ownFolders(settings)
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, value) }
	b.WriteString("[Unit]\n")
	set("Description", "trial of a start of "+s.Name)
	// The default dependencies would wait for the end of a boot, and start what the host has not started.
	set("DefaultDependencies", "no")
	set("Conflicts", "shutdown.target")
	set("Before", "shutdown.target")
	b.WriteString("\n[Service]\n")
	prefix, input := "", ""
	streams := map[string]string{}
	for _, a := range settings {
		switch {
		case a.name == "ExecStart":
			prefix = prefixOf(a.value, prefix)
		case a.name == "StandardOutput", a.name == "StandardError":
			streams[a.name] = streamOf(a.value)
		case a.name == "StandardInput":
			input = a.value // the last one counts
		case kept[a.name]:
			set(a.name, own.optional(a.name, a.value))
		}
	}
	if strings.HasPrefix(input, "file:") { // a terminal is the service's alone
		set("StandardInput", input)
	}
	set("Type", "oneshot")
	set("RemainAfterExit", "yes")
	set("Restart", "no")
	set("TimeoutStartSec", strconv.Itoa(TimeLimit))
	set("TimeoutStopSec", strconv.Itoa(TimeLimit))
	set("StandardOutput", "file:"+t.Output)
	set("StandardError", cmp.Or(streams["StandardError"], streams["StandardOutput"], "file:"+t.Output))
	set("ExecStart", prefix+quoted(t.Program, prefix)+" version")
	return []byte(b.String())
}

// setting is an assignment in the section [Service]. An empty value takes back the earlier ones.
type setting struct{ name, value string }

// settingsOf returns the settings of a service in the order in which systemd applies them, with the specifiers that stand for the
// service's name or file replaced: for the canary, systemd would put the canary's name in their place.
func settingsOf(s Service) (all []setting) {
	specifiers := specifiersOf(s)
	for _, file := range append([]systemd.File{s.Unit}, s.After...) {
		section := ""
		for _, line := range systemd.UnitLines(string(file.Content)) {
			if strings.HasPrefix(line, "[") {
				section = line
			}
			name, value, is := strings.Cut(line, "=")
			if is && section == "[Service]" {
				all = append(all, setting{strings.TrimSpace(name), specifiers.expand(strings.TrimSpace(value))})
			}
		}
	}
	return all
}

// prefixOf returns the prefix that a value of ExecStart= gives the command of a canary, after the values before it: the first command
// counts. systemd would ignore a failure with "-", and "@" renames the program.
func prefixOf(value, before string) string {
	if value == "" {
		return ""
	}
	if before != "" {
		return before
	}
	command := strings.TrimLeft(value, "-@:+!|")
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '@' {
			return -1
		}
		return r
	}, strings.TrimSuffix(value, command))
}

// streamOf returns the value of StandardError= of a canary, if the service writes to a file: that shows whether systemd can open the
// file, and leaves its content alone. A canary has one such file: the one for errors if a service has two.
func streamOf(value string) string {
	for _, kind := range []string{"file:", "append:", "truncate:"} {
		if file, is := strings.CutPrefix(value, kind); is {
			return "append:" + file
		}
	}
	return ""
}

// quoted is a program in a command line. With ":" in the prefix, systemd leaves "$" alone.
func quoted(program, prefix string) string {
	program = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(program)
	if !strings.Contains(prefix, ":") {
		program = strings.ReplaceAll(program, "$", "$$")
	}
	return `"` + program + `"`
}

// folders are the folders that systemd makes for a service when it starts it. A stop may remove them, so a canary has none of its
// own, and a path in one of them may be missing.
type folders []string

func ownFolders(all []setting) (own folders) {
	for _, a := range all {
		parent := systemd.FolderParent(a.name)
		if parent == "" {
			continue
		}
		for _, word := range strings.Fields(a.value) { // a value that was taken back does no harm: its path may be missing, too
			name, _, _ := strings.Cut(strings.Trim(word, `"'`), ":")
			own = append(own, path.Join(parent, name))
		}
	}
	return own
}

// optional returns the value of a setting, with "-" before each path in one of the folders.
func (own folders) optional(name, value string) string {
	switch {
	case len(own) == 0 || value == "":
		return value
	case name == "WorkingDirectory", name == "EnvironmentFile":
		return own.mayMiss(value)
	case !hasPaths(name):
		return value
	}
	words := strings.Fields(value)
	for n := range words {
		words[n] = own.mayMiss(words[n])
	}
	return strings.Join(words, " ")
}

func (own folders) mayMiss(word string) string {
	bare := strings.TrimLeft(word, "-+")
	file, _, _ := strings.Cut(bare, ":")
	file = path.Clean(strings.Replace(file, "/var/run/", "/run/", 1))
	for _, folder := range own {
		if file == folder || strings.HasPrefix(file, folder+"/") {
			return "-" + strings.TrimPrefix(word, "-")
		}
	}
	return word
}
