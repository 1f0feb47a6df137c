// Package image looks at a file system that is to become the image of many machines: for secrets, which every copy of the image would have,
// and for files that belong to the one machine that made it. It changes nothing, and follows no link out of the image.
package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
)

// maxFile is far more than a configuration or a unit has, in bytes.
const maxFile = 16 << 20

// Findings are the results of a look. All paths are as on a machine that is made of the image.
type Findings struct {
	// Secrets are sentences, one for each secret, with its place and what to do.
	Secrets []string
	// DataDirs are the folders where agents keep their state, the usual one first.
	DataDirs []string
	// KeyDirs are the other folders in which configurations keep private keys: a bot's storage and outputs.
	KeyDirs []string
}

// botDir is the folder of tbot's state if its configuration names no other folder, as in its package.
const botDir = "/var/lib/tbot"

// Look looks at the configuration of agents and bots, and at units, in the file system below the folder root. A file that cannot be read is
// an error: it could hold a secret.
func Look(root string) (Findings, error) {
	l := &look{root: root, found: Findings{DataDirs: []string{layout.DataDir}, KeyDirs: []string{botDir}}}
	err := errors.Join(l.units(), l.configurations())
	return l.found, err
}

// Identities returns the files in the folders that hold an agent's database or a private key. A sealed image has no such files.
func Identities(root string, dirs []string) (files []string, err error) {
	l := &look{root: root}
	for _, dir := range dirs {
		at, err := l.resolve(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			holds, err := identifies(path)
			if holds {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// identifies reads only the beginning of a file: an agent's programs are large.
func identifies(path string) (bool, error) {
	f, _, err := regular.Open(path, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4096))
	if bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return true, err
	}
	return bytes.Contains(head, []byte("-----BEGIN ")) && bytes.Contains(head, []byte("PRIVATE KEY-----")), err
}

// look is one look at an image.
type look struct {
	root   string
	found  Findings
	config []string // configuration that units name
}

// secret notes a finding, once.
func (l *look) secret(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(l.found.Secrets, s) {
		l.found.Secrets = append(l.found.Secrets, s)
	}
}

// value notes a value that is a secret, or names a file with one.
func (l *look) value(where, value string) error {
	value = strings.TrimSpace(value)
	switch {
	case value == "", value == "~", value == "null":
		return nil
	case !filepath.IsAbs(value):
		l.secret("%s holds a token: put the path of a file there, and have cloud-init write it", where)
		return nil
	}
	return l.file(value)
}

// file notes a file of the image that is a secret.
func (l *look) file(path string) error {
	at, err := l.resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		l.secret("%s is a token: take it out of the image", at)
	}
	return err
}

// read returns a file of the image; a missing file is not an error.
func (l *look) read(path string) ([]byte, error) {
	at, err := l.resolve(path)
	if err == nil {
		var data []byte
		if data, err = regular.Read(at, maxFile, 0); err == nil {
			return data, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, err
}

// glob returns the files that exist in the image, as paths of a machine. A pattern's folder has no wildcard.
func (l *look) glob(pattern string) (paths []string, err error) {
	dir, name := filepath.Split(pattern)
	at, err := l.resolve(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(at)
	for _, e := range entries {
		if ok, _ := filepath.Match(name, e.Name()); ok {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// resolve returns the place of a machine's path in this file system. A link leads where it would lead on the machine: an absolute one
// begins at the image's root, and no link leads above the root.
func (l *look) resolve(path string) (string, error) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		info, err := os.Lstat(filepath.Join(l.root, next))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("%s: too many links on the way", path)
		}
		target, err := os.Readlink(filepath.Join(l.root, next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(l.root, at), nil
}
