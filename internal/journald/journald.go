// Package journald says whether systemd's journal reads a program's output: the journal adds the
// time of each line by itself, and understands priorities.
package journald

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reads compares a stream with the one that systemd announced to the program. f is nil if the
// stream is no file.
func Reads(f *os.File) bool {
	if f == nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
