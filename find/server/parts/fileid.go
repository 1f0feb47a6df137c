package parts

import (
	"fmt"
	"os"
	"syscall"
)

// FileID tells whether a file is still the one it was.
type FileID struct {
	device, inode  uint64
	size           int64
	seconds, nanos int64 // of its last change
}

// Identify returns which file that is, and in which state.
func Identify(info os.FileInfo) FileID {
	stat := info.Sys().(*syscall.Stat_t)
	return FileID{uint64(stat.Dev), stat.Ino, stat.Size, int64(stat.Mtim.Sec), int64(stat.Mtim.Nsec)}
}

// Etag is strong: equal ones mean equal bytes, as far as a file system tells.
func (id FileID) Etag() string {
	return fmt.Sprintf(`"%x-%x-%x.%x"`, id.inode, id.size, id.seconds, id.nanos)
}
