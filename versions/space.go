package versions

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// fewFiles is how many files a release may need, with room to spare.
const fewFiles = 256

// NoSpaceError says that a file system has too little room. Nothing was
// changed that the agent uses.
type NoSpaceError struct {
	Path   string // a folder of the file system in question
	Need   int64  // bytes (or files); 0 when only the failed write told
	Free   int64  // bytes (or files) free to us
	Inodes bool   // the numbers count files
}

func (e *NoSpaceError) Error() string {
	unit := formatBytes
	if e.Inodes {
		unit = func(n int64) string { return fmt.Sprintf("%d files (inodes)", n) }
	}
	if e.Need == 0 {
		return fmt.Sprintf("no space left on the file system of %s (%s free)", e.Path, unit(e.Free))
	}
	return fmt.Sprintf("not enough space on the file system of %s: %s needed, %s free", e.Path, unit(e.Need), unit(e.Free))
}

// Is makes a NoSpaceError match ENOSPC.
func (e *NoSpaceError) Is(target error) bool { return target == error(unix.ENOSPC) }

// room is what a file system has left for us.
type room struct {
	bytes  int64
	files  int64
	counts bool // whether the file system counts files at all (btrfs does not)
}

func roomAt(path string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return room{}, fmt.Errorf("find out the free space of %s: %w", path, err)
	}
	// Bavail leaves out what is reserved for root: not ours to use up.
	return room{bytes: int64(st.Bavail) * st.Bsize, files: int64(st.Ffree), counts: st.Files > 0}, nil
}

// checkSpace refuses what would not fit in the file system of path.
func checkSpace(path string, need int64) error {
	free, err := roomAt(path)
	if err != nil {
		return err
	}
	if free.bytes < need {
		return &NoSpaceError{Path: path, Need: need, Free: free.bytes}
	}
	if free.counts && free.files < fewFiles {
		return &NoSpaceError{Path: path, Need: fewFiles, Free: free.files, Inodes: true}
	}
	return nil
}

// spaceNeeded estimates what a release takes until it is published: what the
// running one takes and a fifth more, or four times its tarball, whatever is
// larger. A length below zero is unknown. (RFD 0169 compares the tarball's
// length itself, which is that of the compressed release.)
func spaceNeeded(active, length, extra int64) int64 {
	return max(active+active/5, 4*length, 0) + extra
}

// asNoSpace turns "no space" and "quota exceeded" into a NoSpaceError.
func asNoSpace(err error, path string) error {
	if _, done := errors.AsType[*NoSpaceError](err); done || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	e := &NoSpaceError{Path: path}
	if free, statErr := roomAt(path); statErr == nil {
		e.Free = free.bytes
		if free.counts && free.files == 0 {
			e.Inodes, e.Free = true, 0
		}
	}
	return e
}

func formatBytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
