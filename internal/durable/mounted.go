package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// RemoveMounted is RemoveAll for a folder that may have a file system mounted on it, which cannot be renamed: then its content is
// removed, the names in last after the others, and the folder stays.
func RemoveMounted(path string, last ...string) error {
	err := RemoveAll(path)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, ends := range []bool{false, true} {
		for _, e := range entries {
			if slices.Contains(last, e.Name()) != ends {
				continue
			}
			if err := RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
