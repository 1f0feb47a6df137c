package parts

import (
	"fmt"
	"os"
	"syscall"
)

// FileID identifies a file in one state.
type FileID struct {
	device, inode  uint64
	size           int64
	seconds, nanos int64 // of its last change
}

// Identify returns the FileID of a file.
func Identify(info os.FileInfo) FileID {
	stat := info.Sys().(*syscall.Stat_t)
	return FileID{uint64(stat.Dev), stat.Ino, stat.Size, int64(stat.Mtim.Sec), int64(stat.Mtim.Nsec)}
}

// Etag is a strong entity tag: equal tags mean equal bytes, as far as a file system shows.
func (id FileID) Etag() string {
	return fmt.Sprintf(`"%x-%x-%x.%x"`, id.inode, id.size, id.seconds, id.nanos)
}
