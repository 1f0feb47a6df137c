package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A signature says which arguments of a call name what it changes; -1 is none.
type signature struct {
	name string
	fd   int // a file that is open
	dir  int // an open folder that path is relative to
	path int
	// The second path of a rename or a link.
	toDir, to int
}

func onFile(name string, fd int) signature { return signature{name, fd, -1, -1, -1, -1} }
func onPath(name string, path int) signature {
	return signature{name, -1, -1, path, -1, -1}
}
func at(name string, dir int) signature { return signature{name, -1, dir, dir + 1, -1, -1} }

// known lists the calls that count. readlink is none of them: the tracer, whose thread
// has the filter as well, finds the names of open files by it.
func known(lookups bool) map[int]signature {
	calls := changing()
	if !lookups {
		return calls
	}
	calls[unix.SYS_OPENAT2] = at("openat2 of any kind", 0)
	for nr, s := range map[int]signature{
		sysFstatat:          at("newfstatat", 0),
		unix.SYS_STATX:      at("statx", 0),
		unix.SYS_FACCESSAT:  at("faccessat", 0),
		unix.SYS_FACCESSAT2: at("faccessat2", 0),
		unix.SYS_STATFS:     onPath("statfs", 0),
	} {
		calls[nr] = s
	}
	for nr, s := range oldLookups {
		calls[nr] = s
	}
	return calls
}

// changing lists the calls that change something; those that only some machines
// have are in oldCalls.
func changing() map[int]signature {
	calls := map[int]signature{
		unix.SYS_OPENAT:  at("openat", 0),
		unix.SYS_OPENAT2: at("openat2", 0),

		unix.SYS_WRITE:           onFile("write", 0),
		unix.SYS_PWRITE64:        onFile("pwrite64", 0),
		unix.SYS_WRITEV:          onFile("writev", 0),
		unix.SYS_PWRITEV:         onFile("pwritev", 0),
		unix.SYS_PWRITEV2:        onFile("pwritev2", 0),
		unix.SYS_COPY_FILE_RANGE: onFile("copy_file_range", 2),
		unix.SYS_SENDFILE:        onFile("sendfile", 0),
		unix.SYS_SPLICE:          onFile("splice", 2),
		unix.SYS_FTRUNCATE:       onFile("ftruncate", 0),
		unix.SYS_FALLOCATE:       onFile("fallocate", 0),
		unix.SYS_IOCTL:           onFile("ioctl", 0),

		unix.SYS_FSYNC:           onFile("fsync", 0),
		unix.SYS_FDATASYNC:       onFile("fdatasync", 0),
		unix.SYS_SYNC_FILE_RANGE: onFile("sync_file_range", 0),
		unix.SYS_SYNCFS:          onFile("syncfs", 0),

		unix.SYS_RENAMEAT2: {"renameat2", -1, 0, 1, 2, 3},
		unix.SYS_LINKAT:    {"linkat", -1, 0, 1, 2, 3},
		unix.SYS_SYMLINKAT: at("symlinkat", 1),
		unix.SYS_UNLINKAT:  at("unlinkat", 0),
		unix.SYS_MKDIRAT:   at("mkdirat", 0),
		unix.SYS_MKNODAT:   at("mknodat", 0),
		unix.SYS_TRUNCATE:  onPath("truncate", 0),

		unix.SYS_FCHMOD:       onFile("fchmod", 0),
		unix.SYS_FCHMODAT:     at("fchmodat", 0),
		unix.SYS_FCHMODAT2:    at("fchmodat2", 0),
		unix.SYS_FCHOWN:       onFile("fchown", 0),
		unix.SYS_FCHOWNAT:     at("fchownat", 0),
		unix.SYS_UTIMENSAT:    at("utimensat", 0),
		unix.SYS_SETXATTR:     onPath("setxattr", 0),
		unix.SYS_LSETXATTR:    onPath("lsetxattr", 0),
		unix.SYS_FSETXATTR:    onFile("fsetxattr", 0),
		unix.SYS_REMOVEXATTR:  onPath("removexattr", 0),
		unix.SYS_LREMOVEXATTR: onPath("lremovexattr", 0),
		unix.SYS_FREMOVEXATTR: onFile("fremovexattr", 0),
	}
	for nr, s := range oldCalls {
		calls[nr] = s
	}
	return calls
}

// writing are the flags of an open that changes something, or is about to.
const writing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// look returns the files that a call is about, and whether it counts.
func (s signature) look(tid int, args [6]uint64) (path, to string, counts bool) {
	if s.name == "openat2" && peekWord(tid, args[2])&writing == 0 {
		return "", "", false
	}
	switch {
	case s.fd >= 0:
		path = openFile(tid, args[s.fd])
	case s.path >= 0:
		path = pathAt(tid, s.dir, s.path, args)
	}
	if !strings.HasPrefix(path, "/") {
		return path, "", false // a pipe, a socket, or nothing
	}
	for _, dir := range []string{"/proc/", "/sys/", "/dev/"} {
		if strings.HasPrefix(path, dir) && !strings.HasPrefix(path, "/dev/shm/") {
			return "", "", false
		}
	}
	if s.to >= 0 {
		to = pathAt(tid, s.toDir, s.to, args)
	}
	return path, to, true
}

// message returns the first of the words that what a thread writes contains, ""
// for none. Only its beginning is looked at: a D-Bus message has its header there.
func message(tid int, args [6]uint64, words []string) string {
	if len(words) == 0 {
		return ""
	}
	buf := make([]byte, min(args[2], 512))
	if len(buf) == 0 || peek(tid, args[1], buf) <= 0 {
		return ""
	}
	for _, word := range words {
		// The value of a field, which ends with a zero.
		if bytes.Contains(buf, append([]byte(word), 0)) {
			return word
		}
	}
	return ""
}

// openFile is the name of an open file: of one that is not in a folder, what the
// kernel calls it, as in "pipe:[1234]".
func openFile(tid int, fd uint64) string {
	name, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(int(int32(fd))))
	if err != nil {
		return ""
	}
	return name
}

func pathAt(tid, dir, path int, args [6]uint64) string {
	name := peekString(tid, args[path])
	if rest, ok := strings.CutPrefix(name, "/proc/self/fd/"); ok {
		// Through a folder that the program has open.
		if fd, name, below := strings.Cut(rest, "/"); below {
			n, _ := strconv.ParseUint(fd, 10, 31)
			return filepath.Join(openFile(tid, n), name)
		}
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	if dir >= 0 && int32(args[dir]) != unix.AT_FDCWD {
		return filepath.Join(openFile(tid, args[dir]), name)
	}
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/cwd")
	if err != nil {
		return ""
	}
	return filepath.Join(cwd, name)
}

// peekString reads a string from the memory of a thread, never across the end
// of a page that may be the last.
func peekString(tid int, addr uint64) string {
	const page = 4096
	var s []byte
	for addr != 0 && len(s) < unix.PathMax {
		buf := make([]byte, page-addr%page)
		n := peek(tid, addr, buf)
		if n <= 0 {
			return string(s)
		}
		for i, b := range buf[:n] {
			if b == 0 {
				return string(append(s, buf[:i]...))
			}
		}
		s, addr = append(s, buf[:n]...), addr+uint64(n)
	}
	return string(s)
}

func peekWord(tid int, addr uint64) uint64 {
	var b [8]byte
	if peek(tid, addr, b[:]) != len(b) {
		return 0
	}
	var w uint64
	for i, v := range b {
		w |= uint64(v) << (8 * i)
	}
	return w
}

func peek(tid int, addr uint64, buf []byte) int {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}, 0)
	if err != nil {
		return -1
	}
	return n
}
