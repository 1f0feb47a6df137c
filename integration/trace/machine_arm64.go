package trace

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

var oldCalls = map[int]signature{
	unix.SYS_RENAMEAT: {"renameat", -1, 0, 1, 2, 3},
}

const sysFstatat = unix.SYS_FSTATAT

var oldLookups map[int]signature

// flagsOf is the argument that holds the flags of each call that opens.
var flagsOf = map[int]int{unix.SYS_OPENAT: 2}

type registers unix.PtraceRegsArm64

func (r *registers) read(tid int) error {
	return unix.PtraceGetRegSetArm64(tid, unix.NT_PRSTATUS, (*unix.PtraceRegsArm64)(r))
}

func (r *registers) call() int { return int(int32(r.Regs[8])) }

func (r *registers) args() (a [6]uint64) {
	copy(a[:], r.Regs[:6])
	return a
}

// errno is how a call ended.
func (r *registers) errno() syscall.Errno {
	if ret := int64(r.Regs[0]); ret < 0 && ret > -4096 {
		return syscall.Errno(-ret)
	}
	return 0
}

// skip makes the thread leave the call without making it. The number of the call
// is a register of its own here.
func (r *registers) skip(tid int, errno syscall.Errno) error {
	const ntSystemCall = 0x404
	none := int32(-1)
	vec := unix.Iovec{Base: (*byte)(unsafe.Pointer(&none)), Len: 4}
	if _, _, e := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_SETREGSET, uintptr(tid), ntSystemCall, uintptr(unsafe.Pointer(&vec)), 0, 0); e != 0 {
		return e
	}
	r.Regs[0] = uint64(-int64(errno))
	return unix.PtraceSetRegSetArm64(tid, unix.NT_PRSTATUS, (*unix.PtraceRegsArm64)(r))
}
