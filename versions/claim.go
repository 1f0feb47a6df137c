package versions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Claim keeps the folder of one release from Retain while a command that has fetched or found the
// release is at work and has no journal yet. It is a shared lock on the folder itself: it follows
// the folder through renames, several commands may have one, and the kernel drops it when the
// process ends in any way. The zero Claim, and a nil one, claim nothing.
type Claim struct{ folder *os.File }

// claimPatience bounds the wait for a folder with an exclusive lock. A removal takes the folder's
// name away at once; but every user who may read a folder can lock it, and must not stop an update
// by that.
const claimPatience = 2 * time.Second

// Take claims a folder and gives up the earlier claim. For a folder that was removed meanwhile,
// the error matches fs.ErrNotExist. A folder that stays locked is not claimed; that is no error.
func (c *Claim) Take(dir string) error {
	if c == nil {
		return nil
	}
	folder, err := lockFolder(dir, unix.LOCK_SH|unix.LOCK_NB)
	for end := time.Now().Add(claimPatience); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		folder, err = lockFolder(dir, unix.LOCK_SH|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	c.End()
	c.folder = folder
	return nil
}

// End ends the claim.
func (c *Claim) End() {
	if c.folder != nil {
		c.folder.Close()
		c.folder = nil
	}
}

func lockFolder(dir string, how int) (*os.File, error) {
	folder, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(folder.Fd()), how)
	}
	if err == nil {
		var locked, named os.FileInfo
		if locked, err = folder.Stat(); err == nil {
			named, err = os.Lstat(dir)
		}
		if err == nil && !os.SameFile(locked, named) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		folder.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return folder, nil
}
