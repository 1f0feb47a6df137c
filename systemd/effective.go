package systemd

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"teleport-update/internal/executable"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
)

// maxUnitFile is far more than a unit file has, in bytes.
const maxUnitFile = 1 << 20

// A ServiceCommand is what the files of a service say it is started with, whether or not systemd
// runs and has read them.
type ServiceCommand struct {
	Words       []string // of the first command, the program first; variables and specifiers are replaced
	Environment map[string]string
	// Files are the environment files that were read, and Variables says that the words had
	// variables, which may come from them.
	Files     []string
	Variables bool
	Found     bool // there is a unit file
}

// UnitPath are the folders in which systemd looks for units and drop-ins, the ones that rank first
// before the others (systemd.unit(5), "Unit File Load Path").
func UnitPath() []string {
	return slices.Concat([]string{layout.ConfigDir + ".control", "/run/systemd/system.control", "/run/systemd/transient",
		"/run/systemd/generator.early", layout.ConfigDir, layout.ConfigDir + ".attached", "/run/systemd/system",
		"/run/systemd/system.attached", "/run/systemd/generator", layout.UnitDir}, layout.PackageUnitDirs,
		[]string{"/run/systemd/generator.late"})
}

// ReadService reads the unit file that systemd would use, from the first of some folders that has
// it, and what drop-ins in all of them add. Of two drop-ins of one name the one of the earlier folder
// counts. No such unit is no error: then there are no words.
func ReadService(name string, dirs []string) (ServiceCommand, error) {
	return readService(name, dirs, func(*settings) {})
}

// ReadServiceWith is ReadService for a unit whose file is about to be replaced by another one: the command is that one's, and
// the variables of the file that is there stay beside those of the other.
func ReadServiceWith(unit []byte, name string, dirs []string) (ServiceCommand, error) {
	return readService(name, dirs, func(s *settings) {
		s.execStart = nil
		s.add(unit)
	})
}

// readService lets replace change what the unit's own file has said before the drop-ins are read.
func readService(name string, dirs []string, replace func(*settings)) (ServiceCommand, error) {
	s := settings{specifiers: specifiersOf(name)}
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
	replace(&s)
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
	content, err := regular.Read(path, maxUnitFile, 0)
	if _, unsuitable := errors.AsType[*regular.UnsuitableError](err); !unsuitable {
		return content, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && target == "/dev/null" {
		return nil, nil
	}
	return nil, fs.ErrNotExist
}

// dropIns are the files that add to a unit, in the order in which systemd reads them. Of two with
// one name, that of the unit counts before that of all units of its type.
func dropIns(name string, dirs []string) (files []string, err error) {
	for _, of := range dropInNames(name, dirs) {
		for _, dir := range dirs {
			found, err := glob(filepath.Join(dir, of+".d", "*.conf"))
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
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files, nil
}

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

// properties are those of a unit, as systemd answers with them.
type properties map[string]dbus.Variant

func property[T any](p properties, name string) T {
	value, _ := p[name].Value().(T)
	return value
}

// denied reports whether a property is there and says no. Old versions of systemd lack some.
func denied(p properties, name string) bool {
	yes, there := p[name].Value().(bool)
	return there && !yes
}

// text is a field of a structure; empty if there is none.
func text(fields []any, i int) string {
	if i >= len(fields) {
		return ""
	}
	s, _ := fields[i].(string)
	return s
}

// Forever is the length of a limit that the unit sets to "infinity".
const Forever time.Duration = math.MaxInt64

// limit converts microseconds, of which all ones mean infinity.
func limit(usec uint64) time.Duration {
	if usec > math.MaxInt64/1000 {
		return Forever
	}
	return time.Duration(usec) * time.Microsecond
}
