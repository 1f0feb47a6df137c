// Package journald tells whether systemd's journal reads what a program writes: it adds
// the time of each line by itself, and understands priorities.
package journald

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reads compares a stream with the one that systemd announced to the program. It is nil if it is
// no file.
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
