package systemd

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

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
