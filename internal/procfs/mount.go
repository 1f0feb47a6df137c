package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MountOf returns the mount point of the file system of a file that this process has open; empty
// if the kernel does not say.
func (f FS) MountOf(file *os.File) (string, error) {
	about, err := os.ReadFile(filepath.Join(f.Proc, "self/fdinfo", strconv.Itoa(int(file.Fd()))))
	if err != nil {
		return "", err
	}
	number := ""
	for line := range strings.Lines(string(about)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			number = strings.TrimSpace(value)
		}
	}
	mounts, err := os.ReadFile(filepath.Join(f.Proc, "self/mountinfo"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] == number {
			return unescaped.Replace(fields[4]), nil
		}
	}
	return "", nil
}

// unescaped undoes what the kernel does to paths in its table of mounts (proc(5)).
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Unescaped returns a path of the kernel's table of mounts, or of an fstab(5), without escapes.
func Unescaped(path string) string { return unescaped.Replace(path) }

// MountAt returns the mount point of a path's file system; for a missing path, the nearest folder
// above it counts. Links are followed.
func (f FS) MountAt(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		real, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", err
	}
	mounts, err := f.Mounts()
	if err != nil {
		return "", err
	}
	found := ""
	for _, at := range mounts {
		// A later one is mounted over an earlier one.
		if inside := at == "/" || real == at || strings.HasPrefix(real, at+"/"); inside && len(at) >= len(found) {
			found = at
		}
	}
	if found == "" {
		return "", fmt.Errorf("the kernel lists no mount that has %s", real)
	}
	return found, nil
}

// Mounts returns the paths of mounted file systems, without links, in the order of their mounting. It asks the kernel alone:
// a file server that does not answer delays nobody.
func (f FS) Mounts() (all []string, err error) {
	mounts, err := os.ReadFile(filepath.Join(f.Proc, "self/mountinfo"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, unescaped.Replace(fields[4]))
		}
	}
	return all, nil
}
