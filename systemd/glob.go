package systemd

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// glob are the files that a pattern matches as glob(7) has it: "[!a]" is any other character than "a", and only a dot in
// the pattern matches one that a name begins with.
func glob(pattern string) ([]string, error) {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	found, err := filepath.Glob(pattern)
	return slices.DeleteFunc(found, func(path string) bool { return hiddenFrom(pattern, path) }), err
}

// hiddenFrom reports whether a name in a path begins with a dot that the pattern leaves to a wildcard.
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

// globExists is PathExistsGlob=, in which systemd expands braces, and this program does not.
func globExists(pattern string) (bool, error) {
	if strings.Contains(pattern, "{") {
		return false, errBraces
	}
	found, err := glob(pattern)
	return len(found) > 0, err
}

// leftOut are what files are called that systemd passes over in a folder (path-util.c, hidden_or_backup_file), by the end of
// the name.
var leftOut = []string{"~", ".rpmnew", ".rpmsave", ".rpmorig", ".dpkg-old", ".dpkg-new", ".dpkg-tmp", ".dpkg-dist", ".dpkg-bak",
	".dpkg-backup", ".dpkg-remove", ".ucf-new", ".ucf-old", ".ucf-dist", ".swp", ".bak", ".old", ".new"}

// passedOver reports whether a file in a folder is none to DirectoryNotEmpty=.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"lost+found", "aquota.user", "aquota.group"}, name) ||
		slices.ContainsFunc(leftOut, func(end string) bool { return strings.HasSuffix(name, end) })
}
