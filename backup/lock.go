package backup

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The bytes of a database file that stand for its locks, from SQLite's file
// format: a connection that reads holds a read lock on the shared range (in WAL
// mode for as long as it is open), one that writes the file a write lock on all.
const (
	pendingByte = 0x40000000
	sharedFirst = pendingByte + 2
	sharedSize  = 510
	allSize     = sharedFirst + sharedSize - pendingByte
)

var errLocked = errors.New("locked by another process")

// lockShared keeps others from writing the database file itself and, in WAL
// mode, from removing the WAL and its index. In WAL mode it hinders no reader
// and no writer. It returns errLocked instead of waiting.
func lockShared(path string) (io.Closer, error) {
	// The pending byte first, and not for long: a process that holds it waits for readers to leave.
	return lock(path,
		unix.Flock_t{Type: unix.F_RDLCK, Start: pendingByte, Len: 1},
		unix.Flock_t{Type: unix.F_RDLCK, Start: sharedFirst, Len: sharedSize},
		unix.Flock_t{Type: unix.F_UNLCK, Start: pendingByte, Len: 1})
}

// lockExclusive keeps everybody out; it succeeds only if nobody reads or writes and, in WAL mode, nobody is connected. It returns errLocked
// instead of waiting.
func lockExclusive(path string) (io.Closer, error) {
	return lock(path, unix.Flock_t{Type: unix.F_WRLCK, Start: pendingByte, Len: allSize})
}

// lock opens the file for writing, because a write lock needs that; nothing is ever written through it. Closing it releases the locks: they
// are locks of the open file, not of the process, and do not touch the locks of connections in this process.
func lock(path string, locks ...unix.Flock_t) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	for _, l := range locks {
		if err := setLock(f, l); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func setLock(f *os.File, l unix.Flock_t) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
