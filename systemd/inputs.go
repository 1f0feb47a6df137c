package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/executable"
)

// input is a file or folder that a setting names, and without which systemd starts none of a unit's processes.
type input struct{ path, setting string }

// inputs collects them without what systemd makes for the unit itself.
type inputs []input

func (all *inputs) add(path, setting string, made []string) {
	brought := slices.ContainsFunc(made, func(m string) bool { return related(m, path) })
	if filepath.IsAbs(path) && !brought {
		*all = append(*all, input{filepath.Clean(path), setting + path})
	}
}

// parseInputs leaves out what a command with full privileges may make, which runs before all else and without the unit's view of
// files ("ExecStartPre=+…"). made is what systemd makes or mounts for the unit.
func parseInputs(p properties, made []string) (all inputs) {
	if hasPrivileged(p) {
		return all
	}
	for _, path := range neededPaths(p) {
		all.add(path.path, path.setting, made)
	}
	all.addSources(p, foldersFor(p))
	return all
}

// parsePrograms are those of the commands that systemd runs around that of ExecStart=, without those whose failure it ignores. What
// a command before the start may make with full privileges is left out of those after it.
func parsePrograms(p properties, made []string) (all inputs) {
	names := beforeStart
	if !hasPrivileged(p) {
		names = append(slices.Clone(names), "ExecStartPost")
	}
	for _, name := range names {
		for _, fields := range property[[][]any](p, name) {
			if len(fields) > 2 && fields[2] == false {
				all.add(text(fields, 0), name+"=", made)
			}
		}
	}
	return all
}

// addSources adds what is looked for outside of the unit's view, and bound or copied into it.
func (all *inputs) addSources(p properties, made []string) {
	for _, name := range []string{"BindPaths", "BindReadOnlyPaths"} {
		for _, fields := range property[[][]any](p, name) {
			if len(fields) > 2 && fields[2] == false {
				all.add(text(fields, 0), name+"=", made)
			}
		}
	}
	for _, name := range []string{"NetworkNamespacePath", "IPCNamespacePath"} {
		all.add(property[string](p, name), name+"=", made)
	}
	for _, name := range []string{"LoadCredential", "LoadCredentialEncrypted"} {
		for _, fields := range property[[][]any](p, name) {
			if id := text(fields, 0); !hasDefault(p, id) {
				all.add(text(fields, 1), name+"="+id+":", made)
			}
		}
	}
}

// neededPaths are those over which systemd puts what a setting says. It leaves out a path for which one above it says the same, or
// hides it.
func neededPaths(p properties) (all []input) {
	for _, kind := range overPaths {
		for _, path := range property[[]string](p, kind.name) {
			bare := strings.TrimLeft(path, "-+")
			if strings.Contains(strings.TrimSuffix(path, bare), "-") {
				continue // it may be missing
			}
			covered := slices.ContainsFunc(parseView(p).Veils, func(v Veil) bool {
				same, hidden := v.Of == kind.of && v.Lifted == kind.lifted, v.Of == Seeing && !v.Lifted
				return (same || hidden) && strings.HasPrefix(filepath.Clean(bare), strings.TrimSuffix(v.Path, "/")+"/")
			})
			if !covered {
				all = append(all, input{bare, kind.name + "="})
			}
		}
	}
	return all
}

// hasPrivileged reports whether a command before the start has full privileges.
func hasPrivileged(p properties) bool {
	return slices.ContainsFunc(beforeStart, func(name string) bool {
		return slices.ContainsFunc(property[[][]any](p, name+"Ex"), func(fields []any) bool {
			if len(fields) < 3 {
				return false
			}
			flags, _ := fields[2].([]string)
			return slices.Contains(flags, "privileged")
		})
	})
}

// hasDefault reports whether a credential has a value where its file is missing.
func hasDefault(p properties, id string) bool {
	return slices.ContainsFunc([]string{"SetCredential", "SetCredentialEncrypted"}, func(name string) bool {
		return slices.ContainsFunc(property[[][]any](p, name), func(fields []any) bool { return text(fields, 0) == id })
	})
}

// missingInput is the setting of an input that is not there, and that nobody brings; empty if none shows. A file system that does not
// answer says nothing.
func (s Startup) missingInput() string {
	if len(s.inputs) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		for _, in := range s.inputs {
			if _, err := os.Stat(in.path); os.IsNotExist(err) && !s.brings(in.path) {
				return in.setting, nil
			}
		}
		return "", nil
	})
	return setting
}

// brokenProgram is the setting of a command whose program cannot be executed, and that nobody brings; empty if none shows. A program
// or an interpreter that is in the unit's own view of files only is left out.
func (s Startup) brokenProgram() string {
	if len(s.programs) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		for _, program := range s.programs {
			interpreter := executable.Interpreter(program.path)
			made := slices.ContainsFunc(s.made, func(m string) bool { return interpreter != "" && related(m, interpreter) })
			why, err := executable.Why(program.path)
			if err == nil && why != nil && !made && !s.brings(program.path) {
				return program.setting, nil
			}
		}
		return "", nil
	})
	return setting
}
