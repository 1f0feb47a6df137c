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

// maxUnitFile is far larger than any unit file, in bytes.
const maxUnitFile = 1 << 20

// A ServiceCommand is the command of a service according to its files, whether or not systemd runs
// and has read them.
type ServiceCommand struct {
	Words       []string // of the first command, the program first; variables and specifiers are replaced
	Environment map[string]string
	// Files are the environment files that were read, and Variables says that the words had
	// variables, which may come from them.
	Files     []string
	Variables bool
	Found     bool // there is a unit file
}

// UnitPath returns the folders in which systemd looks for units and drop-ins, in the order of
// their precedence (systemd.unit(5), "Unit File Load Path").
func UnitPath() []string {
	return slices.Concat([]string{layout.ConfigDir + ".control", "/run/systemd/system.control", "/run/systemd/transient",
		"/run/systemd/generator.early", layout.ConfigDir, layout.ConfigDir + ".attached", "/run/systemd/system",
		"/run/systemd/system.attached", "/run/systemd/generator", layout.UnitDir}, layout.PackageUnitDirs,
		[]string{"/run/systemd/generator.late"})
}

// ReadService reads the unit file that systemd would use, from the first folder that has it, and the
// drop-ins in all folders. Of two drop-ins of one name the one of the earlier folder counts. A
// missing unit is no error: then there are no words.
func ReadService(name string, dirs []string) (ServiceCommand, error) {
	return readService(name, dirs, func(*settings) {})
}

// ReadServiceWith is ReadService for a unit whose file another one is about to replace: the command comes from the new file,
// and the variables of the present file stay beside the new file's.
func ReadServiceWith(unit []byte, name string, dirs []string) (ServiceCommand, error) {
	return readService(name, dirs, func(s *settings) {
		s.execStart = nil
		s.add(unit)
	})
}

// readService lets replace change the settings of the unit's own file before the drop-ins are read.
func readService(name string, dirs []string, replace func(*settings)) (ServiceCommand, error) {
	s := settings{specifiers: specifiersOf(name)}
	unit, after, err := FilesOf(name, dirs)
	if err != nil {
		return ServiceCommand{}, err
	}
	s.add(unit.Content)
	s.found = unit.Path != ""
	replace(&s)
	for _, file := range after {
		s.add(file.Content)
	}
	return s.command()
}

// readServiceFile reads a file of a unit. A masked file is empty. If path is no file, for example a
// folder, systemd ignores it, and readServiceFile returns ErrNotExist.
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

// File is a file of a unit. A mask has no content.
type File struct {
	Path    string
	Content []byte
}

// FilesOf returns the file that systemd would use for a unit, the zero File if there is none, and the drop-ins in the order in which
// systemd applies them. dirs begins with the folder that has the highest precedence.
func FilesOf(name string, dirs []string) (unit File, after []File, err error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		content, err := readServiceFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return File{}, nil, err
		}
		unit = File{path, content}
		break
	}
	paths, err := dropIns(name, dirs)
	if err != nil {
		return File{}, nil, err
	}
	for _, path := range paths {
		content, err := readServiceFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return File{}, nil, err
		}
		after = append(after, File{path, content})
	}
	return unit, after, nil
}

// dropIns returns the files that add to a unit, in the order in which systemd reads them. If two
// have one name, the unit's own counts before the one for all units of its type.
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

// parseInputs returns no inputs if a command with full privileges runs first, outside of the unit's view of files
// ("ExecStartPre=+…"): it may make all of them. made are the paths that systemd makes or mounts for the unit.
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

// parsePrograms returns the programs of the commands that systemd runs around the command of ExecStart=, without those whose
// failure it ignores. If a command before the start has full privileges, it may make the programs of later commands, which are left
// out.
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

// addSources adds files and folders that systemd looks for outside of the unit's view, and binds or copies into it.
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

// neededPaths returns the paths over which systemd puts the effect of a setting. It leaves out a path if a path above it has the
// same effect, or hides it.
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

// hasDefault reports whether a credential has a value if its file is missing.
func hasDefault(p properties, id string) bool {
	return slices.ContainsFunc([]string{"SetCredential", "SetCredentialEncrypted"}, func(name string) bool {
		return slices.ContainsFunc(property[[][]any](p, name), func(fields []any) bool { return text(fields, 0) == id })
	})
}

// missingInput returns the setting of an input that does not exist, and that no other unit brings; empty if none shows. It ignores a
// file system that does not answer.
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

// brokenProgram returns the setting of a command whose program cannot be executed, and that no other unit brings; empty if none
// shows. A program or an interpreter that exists only in the unit's own view of files is left out.
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

// properties are a unit's properties in systemd's answer.
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

// text returns a field of a structure; empty if the field is missing.
func text(fields []any, i int) string {
	if i >= len(fields) {
		return ""
	}
	s, _ := fields[i].(string)
	return s
}

// Forever is the length of a limit that the unit sets to "infinity".
const Forever time.Duration = math.MaxInt64

// limit converts microseconds; all ones mean infinity.
func limit(usec uint64) time.Duration {
	if usec > math.MaxInt64/1000 {
		return Forever
	}
	return time.Duration(usec) * time.Microsecond
}
