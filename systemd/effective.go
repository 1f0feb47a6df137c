package systemd

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

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
