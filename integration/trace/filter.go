package trace

import (
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, of little-endian machines.
const (
	offsetCall        = 0
	offsetArch        = 4
	offsetInstruction = 8
	offsetArgs        = 16
)

// cloning are the ioctls that write to a file.
var cloning = []uint32{unix.FICLONE, unix.FICLONERANGE}

// filter hands over the calls in question to the tracer and lets all others
// pass. Opens that only read pass, too, unless lookups count.
func filter(calls map[int]signature, lookups bool) []unix.SockFilter {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		anyOf   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		leave   = unix.BPF_RET | unix.BPF_K
	)
	pass := unix.SockFilter{Code: leave, K: unix.SECCOMP_RET_ALLOW}
	trace := unix.SockFilter{Code: leave, K: unix.SECCOMP_RET_TRACE}
	program := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: auditArch, Jt: 1},
		pass,
		{Code: load, K: offsetCall},
	}
	numbers := make([]int, 0, len(calls))
	for nr := range calls {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)
	for _, nr := range numbers {
		arg := func(n int) unix.SockFilter {
			return unix.SockFilter{Code: load, K: uint32(offsetArgs + 8*n)}
		}
		// What to do about this call, skipped for all others.
		do := []unix.SockFilter{trace}
		if nr == unix.SYS_WRITE {
			begin := uint64(runtimeWrite())
			do = []unix.SockFilter{
				{Code: load, K: offsetInstruction + 4},
				{Code: equal, K: uint32(begin >> 32), Jf: 3},
				{Code: load, K: offsetInstruction},
				{Code: atLeast, K: uint32(begin), Jf: 1},
				{Code: atLeast, K: uint32(begin) + runtimeWriteSize, Jf: 1},
				trace, pass,
			}
		}
		if flags, ok := flagsOf[nr]; ok && !lookups {
			do = []unix.SockFilter{arg(flags), {Code: anyOf, K: writing, Jf: 1}, trace, pass}
		} else if nr == unix.SYS_IOCTL {
			do = []unix.SockFilter{arg(1)}
			for _, request := range cloning {
				do = append(do, unix.SockFilter{Code: equal, K: request, Jf: 1}, trace)
			}
			do = append(do, pass)
		}
		program = append(program, unix.SockFilter{Code: equal, K: uint32(nr), Jf: uint8(len(do))})
		program = append(program, do...)
	}
	return append(program, pass)
}

// install makes the filter hold for this thread, for good, and for what it
// starts.
func install(program []unix.SockFilter) error {
	if os.Geteuid() != 0 {
		// Without it an ordinary user may not have a filter.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up privileges: %w", err)
		}
	}
	if len(program) > math.MaxUint16 {
		return fmt.Errorf("a filter of %d steps is too long", len(program))
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("install the filter of calls: %w", errno)
	}
	return nil
}
