package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// readTree lists the files of a repository, after it has removed what a run that
// was cut off has left. Names that begin with a dot are none of a repository's.
func readTree(dir string) (tree, error) {
	files := make(tree)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return durable.CleanTemp(path)
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // CleanTemp has removed it
		}
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		files[name] = info.ModTime()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	return files, nil
}

func carryOut(dir string, changes []change, now time.Time) error {
	for _, c := range changes {
		if err := c.carryOut(filepath.Join(dir, c.path), now); err != nil {
			return fmt.Errorf("%s %s: %w", c.verb, c.path, err)
		}
	}
	return nil
}

func (c change) carryOut(path string, now time.Time) error {
	switch c.verb {
	case write:
		data := c.data
		if c.from != "" {
			var err error
			if data, err = os.ReadFile(c.from); err != nil {
				return err
			}
		}
		return put(path, data)
	case mark:
		if err := os.Chtimes(path, now, now); err != nil {
			return err
		}
		return durable.SyncFile(path)
	case remove:
		return durable.Remove(path)
	}
	return understandable(exchangeFolder(path, c.files))
}

// understandable says what to do where the file system cannot do it.
func understandable(err error) error {
	unable := []error{unix.EPERM, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EXDEV, unix.EMLINK}
	if slices.ContainsFunc(unable, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf(
			"%w; this file system cannot exchange a folder in one step, as FAT and NFS cannot: publish on another one, and copy the folder", err)
	}
	return err
}

// put leaves a file alone that has the content already: its time says that nothing
// is new.
func put(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o644)
}

// exchangeFolder adds files to a folder, or replaces those of their names, all of
// them in one step: it fills another folder, in which the other files have a second
// name, and exchanges the two.
func exchangeFolder(path string, files map[string][]byte) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	if err := os.RemoveAll(aside); err != nil { // of a run that was cut off
		return err
	}
	_, err := os.Lstat(path)
	exists := !errors.Is(err, fs.ErrNotExist)
	if exists {
		err = durable.LinkFiles(path, aside)
	} else {
		err = durable.MkdirAll(aside, 0o755)
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := put(filepath.Join(aside, name), files[name]); err != nil {
			return err
		}
	}
	if !exists {
		return durable.Rename(aside, path)
	}
	if err := durable.Exchange(aside, path); err != nil {
		return err
	}
	return durable.RemoveAll(aside)
}
