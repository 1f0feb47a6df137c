package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
)

const (
	// restoreFiles is how many files a restore makes beside the database at once, each an inode: a copy, or SQLite's own.
	restoreFiles = 3
	// reserveExtra is what a file system may take for its own records, in bytes.
	reserveExtra = 256 << 10
)

// Reserve keeps room beside the database for a restore of a backup of so many bytes, and inodes for the files that the restore makes.
// CanRestore counts the reserve as free room; the caller drops it before that restore. A file system that cannot keep room for a file
// keeps its inode.
func (d *Database) Reserve(size int64) (err error) {
	defer d.explained(&err)
	t, err := d.place()
	if err == nil {
		err = t.dropReserve()
	}
	if err != nil {
		return err
	}
	bytes := size + spaceMargin + reserveExtra
	for n := range restoreFiles {
		if err := t.reserve(n, bytes); err != nil {
			return errors.Join(space.Explain(err, filepath.Dir(t.path)), t.dropReserve())
		}
		bytes = 0
	}
	return durable.SyncDir(filepath.Dir(t.path))
}

func (t place) reserve(n int, bytes int64) error {
	f, err := durable.CreateSpare(fmt.Sprintf("%s.%d", t.path, n))
	if err != nil {
		return err
	}
	defer f.Close()
	if bytes > 0 {
		if err := durable.Allocate(f, 0, 0, bytes); err != nil {
			return err
		}
	}
	return f.Sync()
}

// HasReserve reports whether there is a reserve.
func (d *Database) HasReserve() bool {
	t, err := d.place()
	if err != nil {
		return false
	}
	_, files, err := t.reserved()
	return err == nil && files > 0
}

// DropReserve gives the room back.
func (d *Database) DropReserve() (err error) {
	defer d.explained(&err)
	t, err := d.place()
	if err != nil {
		return err
	}
	return errors.Join(t.dropReserve(), durable.SyncDir(filepath.Dir(t.path)))
}

func (t place) dropReserve() error {
	names, err := t.temporary(durable.IsSpare)
	return errors.Join(err, removeAll(names))
}

// reserved returns the room and the inodes of the reserve.
func (t place) reserved() (bytes, files int64, err error) {
	names, err := t.temporary(durable.IsSpare)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil {
			bytes, files = bytes+st.Blocks*512, files+1
		}
	}
	return bytes, files, err
}

// temporary returns the files of this package beside the database whose names are of a kind. The folder is the agent's, so only names
// that no one else gives are taken.
func (t place) temporary(kind func(name string) bool) (paths []string, err error) {
	dir := filepath.Dir(t.path)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if kind(e.Name()) && strings.Contains(e.Name(), filepath.Base(t.path)) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

func removeAll(paths []string) error {
	for _, path := range paths {
		if err := durable.UnlinkNoSync(path); err != nil {
			return err
		}
	}
	return nil
}
