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

// readTree lists the files of a repository, and removes temporary files of an
// interrupted run. Names that begin with a dot do not belong to the repository.
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

// understandable adds advice if the file system cannot do it.
func understandable(err error) error {
	unable := []error{unix.EPERM, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EXDEV, unix.EMLINK}
	if slices.ContainsFunc(unable, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf(
			"%w; this file system cannot exchange a folder in one step, as FAT and NFS cannot: publish on another one, and copy the folder", err)
	}
	return err
}

// put does not touch a file that has the content already, so that its time shows that
// nothing is new.
func put(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o644)
}

// exchangeFolder adds or replaces files in a folder, all in one step: it fills another
// folder, which also links the other files, and exchanges the two.
func exchangeFolder(path string, files map[string][]byte) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	if err := os.RemoveAll(aside); err != nil { // left by an interrupted run
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
