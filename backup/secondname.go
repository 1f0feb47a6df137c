package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// GiveSecondName gives the backup in dir a second name in the folder second, which is made for root only: it outlives the removal of dir,
// and takes no room. The old content of second goes first. If it returns no error, the second name is on stable storage, as the backup has
// to be. It is impossible if the two are on different file systems, or on one without hard links; then nothing is left in second, and the
// backup is unchanged.
func GiveSecondName(dir, second string) (err error) {
	if err := DropSecondName(second); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("give the backup in %s a second name: %w", dir, errors.Join(err, DropSecondName(second)))
		}
	}()
	if err := durable.MkdirAll(second, 0o700); err != nil {
		return err
	}
	// As when the backup was taken: the file that shows that all is there comes last.
	for _, name := range []string{FileName, metaName} {
		if err := durable.Link(filepath.Join(dir, name), filepath.Join(second, name)); err != nil {
			return err
		}
	}
	return nil
}

// DropSecondName removes a second name. A missing one is no error.
func DropSecondName(second string) error {
	if _, err := os.Lstat(second); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := durable.RemoveAll(second); err != nil {
		return fmt.Errorf("remove the second name of a backup, %s: %w", second, err)
	}
	return nil
}

// OnlyName reports whether the backup in second has no other name any more, and when it was
// taken.
func OnlyName(second string) (taken time.Time, only bool) {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(second, FileName), &st); err != nil || st.Nlink != 1 {
		return taken, false
	}
	taken, err := Created(second)
	return taken, err == nil
}

// HasSecondName reports whether second has the database of the backup in dir.
func HasSecondName(dir, second string) bool {
	one, err1 := os.Lstat(filepath.Join(dir, FileName))
	other, err2 := os.Lstat(filepath.Join(second, FileName))
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}
