package procfs

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LetGoOfProgram unmaps the pages of this program's code and constants, which nobody can have changed. It saves memory and
// nothing depends on it: if it is not possible, it does nothing.
//
// Each page of a program's file that a process has touched counts as its memory, with the 15 pages around it. A run of
// the timer initialises its packages, makes one request over TLS and asks systemd, one after the other, and hardly any code is
// needed for two of them: kept until the end, such pages are two thirds of its memory. Pages that are needed again are mapped
// again from the page cache. A program that the loader relocates (PIE) keeps them, because its relocated constants are among them.
func (f FS) LetGoOfProgram() {
	maps, err := os.ReadFile(filepath.Join(f.Proc, "self/maps"))
	if err != nil {
		return
	}
	program, err := os.Readlink(filepath.Join(f.Proc, "self/exe"))
	if err != nil {
		return
	}
	if !f.atFixedAddresses() {
		return
	}
	for _, m := range constant(string(maps), program) {
		// Not by unix.Madvise, which takes a slice: Go must not have slices of this memory.
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// atFixedAddresses reports whether this program is an ELF file of the type ET_EXEC: its read-only mappings equal the file.
func (f FS) atFixedAddresses() bool {
	const typeAt, executable = 16, 2
	file, err := os.Open(filepath.Join(f.Proc, "self/exe"))
	if err != nil {
		return false
	}
	defer file.Close()
	var header [typeAt + 2]byte
	if _, err := io.ReadFull(file, header[:]); err != nil {
		return false
	}
	return binary.NativeEndian.Uint16(header[typeAt:]) == executable
}

// mapping is a part of the address space.
type mapping struct{ start, end uintptr }

// constant returns the mappings of a program that cannot be written, from the content of proc_pid_maps(5).
func constant(maps, program string) (all []mapping) {
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[5] != program || fields[1] != "r-xp" && fields[1] != "r--p" {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
		end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
		if err1 == nil && err2 == nil && start < end {
			all = append(all, mapping{uintptr(start), uintptr(end)})
		}
	}
	return all
}
