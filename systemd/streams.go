package systemd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// standardInput is the setting whose file has to be there. systemd makes those of the other two, in a folder that has to be there.
const standardInput = "StandardInput"

var (
	streamNames = []string{standardInput, "StandardOutput", "StandardError"}
	streamKinds = []string{"file", "append", "truncate"}
)

// streams are the settings by which a process reads from a file, or writes to one. systemd tells the kind of a stream ("append")
// over D-Bus and keeps the path, so the unit's files are read for it.
type streams struct {
	kinds map[string]string // by the name of the setting; without streams of other kinds, as "journal"
	unit  string
	files []string // of the unit, in the order in which systemd reads them
}

func parseStreams(p properties) (s streams) {
	for _, name := range streamNames {
		kind := property[string](p, name)
		if !slices.Contains(streamKinds, kind) {
			continue
		}
		if s.kinds == nil {
			s.unit, s.kinds = property[string](p, "Id"), make(map[string]string)
			s.files = append([]string{property[string](p, "FragmentPath")}, property[[]string](p, "DropInPaths")...)
		}
		s.kinds[name] = kind
	}
	return s
}

// paths are those of the streams, by the names of the settings. A path is left out if systemd has loaded the setting with another
// kind than the files have, or if it has a specifier that is not known here.
func (s streams) paths() map[string]string {
	last := make(map[string]string)
	for _, file := range s.files {
		content, err := readServiceFile(file)
		if err != nil {
			continue
		}
		for name, value := range serviceSettings(string(content)) {
			if _, is := s.kinds[name]; is && value.text != "" {
				last[name] = value.text
			}
		}
	}
	paths := make(map[string]string)
	for name, value := range last {
		path, same := strings.CutPrefix(value, s.kinds[name]+":")
		path = specifiersOf(s.unit).Replace(path)
		if same && filepath.IsAbs(path) && !strings.Contains(path, "%") {
			paths[name] = filepath.Clean(path)
		}
	}
	return paths
}

// closedStream is the setting of a stream that systemd cannot open (208/STDIN, 209/STDOUT, 222/STDERR); empty if none shows. What
// the unit makes or mounts for itself is left out, and what other units bring.
func (s Startup) closedStream() string {
	if len(s.streams.kinds) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		paths := s.streams.paths()
		for _, name := range streamNames {
			path := paths[name]
			made := slices.ContainsFunc(s.made, func(m string) bool { return related(m, path) })
			if path == "" || made || s.brings(path) {
				continue
			}
			isWritten := name != standardInput || path == paths["StandardOutput"]
			if cannotOpen(path, isWritten) {
				return name + "=" + s.streams.kinds[name] + ":" + path, nil
			}
		}
		return "", nil
	})
	return setting
}

// cannotOpen reports whether a file is missing or, if it is written, cannot be made.
func cannotOpen(path string, isWritten bool) bool {
	info, err := os.Stat(path)
	if err == nil {
		return isWritten && info.IsDir()
	}
	if isWritten && errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
		return errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
