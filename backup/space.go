package backup

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spaceMargin is what must stay free beside a copy, in bytes: the agent goes on
// writing while it is made.
const spaceMargin = 8 << 20

// A NoSpaceError says that a file system has too little room for a copy of the
// database. What was there before is still there.
type NoSpaceError struct {
	Path string
	// Need and Free are bytes; Need is zero where the room ran out on the way
	// although it had looked enough.
	Need, Free int64
}

func (e *NoSpaceError) Error() string {
	if e.Need == 0 {
		return fmt.Sprintf("no space left for the database in %s (%d MB free)", e.Path, e.Free>>20)
	}
	return fmt.Sprintf("the database needs %d MB in %s, where %d MB are free", megabytes(e.Need), e.Path, e.Free>>20)
}

// megabytes rounds up.
func megabytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// checkSpace makes sure that a copy of size bytes fits into dir.
func checkSpace(dir string, size int64) error {
	free, err := freeSpace(dir)
	if err != nil {
		return err
	}
	if need := size + spaceMargin; free < need {
		return &NoSpaceError{Path: dir, Need: need, Free: free}
	}
	return nil
}

func noSpace(dir string) error {
	free, err := freeSpace(dir)
	if err != nil {
		return err
	}
	return &NoSpaceError{Path: dir, Free: free}
}

func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
