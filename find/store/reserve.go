package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserveSize is more than any decision of the engine or of a person needs, with its record.
const reserveSize = 4 << 20

func (s *SQLite) reservePath() string { return s.path + "-reserve" }

// keepReserve keeps room on the disk for the first change that finds the disk full: a change that stops updates has to
// succeed. A full disk has no reserve.
func (s *SQLite) keepReserve() {
	if s.path == inMemory {
		return
	}
	f, err := os.OpenFile(s.reservePath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return // it is there
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, reserveSize); err != nil {
		os.Remove(s.reservePath())
	}
}

// giveUpReserve removes the reserve. It reports whether there is more room now.
func (s *SQLite) giveUpReserve() bool { return os.Remove(s.reservePath()) == nil }
