package trace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_X86_64

var oldCalls = map[int]signature{
	unix.SYS_OPEN:      onPath("open", 0),
	unix.SYS_CREAT:     onPath("creat", 0),
	unix.SYS_RENAME:    {"rename", -1, -1, 0, -1, 1},
	unix.SYS_RENAMEAT:  {"renameat", -1, 0, 1, 2, 3},
	unix.SYS_LINK:      {"link", -1, -1, 0, -1, 1},
	unix.SYS_SYMLINK:   onPath("symlink", 1),
	unix.SYS_UNLINK:    onPath("unlink", 0),
	unix.SYS_MKDIR:     onPath("mkdir", 0),
	unix.SYS_RMDIR:     onPath("rmdir", 0),
	unix.SYS_MKNOD:     onPath("mknod", 0),
	unix.SYS_CHMOD:     onPath("chmod", 0),
	unix.SYS_CHOWN:     onPath("chown", 0),
	unix.SYS_LCHOWN:    onPath("lchown", 0),
	unix.SYS_UTIME:     onPath("utime", 0),
	unix.SYS_UTIMES:    onPath("utimes", 0),
	unix.SYS_FUTIMESAT: at("futimesat", 0),
}

const sysFstatat = unix.SYS_NEWFSTATAT

var oldLookups = map[int]signature{
	unix.SYS_STAT:   onPath("stat", 0),
	unix.SYS_LSTAT:  onPath("lstat", 0),
	unix.SYS_ACCESS: onPath("access", 0),
}

// flagsOf is the argument that holds the flags of each call that opens.
var flagsOf = map[int]int{unix.SYS_OPENAT: 2, unix.SYS_OPEN: 1}

type registers unix.PtraceRegs

func (r *registers) read(tid int) error {
	return unix.PtraceGetRegs(tid, (*unix.PtraceRegs)(r))
}

func (r *registers) call() int { return int(int32(r.Orig_rax)) }

func (r *registers) args() [6]uint64 { return [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9} }

// errno is how a call ended.
func (r *registers) errno() syscall.Errno {
	if ret := int64(r.Rax); ret < 0 && ret > -4096 {
		return syscall.Errno(-ret)
	}
	return 0
}

// skip makes the thread leave the call without making it.
func (r *registers) skip(tid int, errno syscall.Errno) error {
	r.Orig_rax = ^uint64(0)
	r.Rax = uint64(-int64(errno))
	return unix.PtraceSetRegs(tid, (*unix.PtraceRegs)(r))
}
