package trace

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracer is one run. Its methods are called on one thread, the only one that
// may ask the kernel anything about the program.
type tracer struct {
	decide  func(Call) Action
	at      int         // the only call to ask about; 0: each
	calls   chan func() // to be called by another thread
	called  chan struct{}
	known   map[int]signature
	words   []string // that make a message count
	tracees map[int]*tracee
	root    int
	dying   bool
	result  Result

	mu    sync.Mutex // guards alive
	alive bool       // root's number is still its own
}

// tracee is one thread of the program or of a child.
type tracee struct {
	call    *Call // that it is in
	stopped bool
	vforks  bool // sleeps until its child has executed something
}

const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEVFORKDONE |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL

func (t *tracer) run(ctx context.Context, c Command, s *streams) error {
	t.known, t.words = known(c.Lookups), c.Messages
	if err := t.start(c, s); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.alive {
			_ = unix.Kill(t.root, unix.SIGKILL)
		}
	})
	defer stop()
	var failure error
	for {
		pid, status, err := t.wait()
		if err == unix.ECHILD {
			return failure
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if err := t.handle(pid, status); err != nil && err != unix.ESRCH && failure == nil {
			failure = err
			t.killAll()
		}
	}
}

// start leaves the program stopped before its first instruction, its options
// set, and lets it go.
func (t *tracer) start(c Command, s *streams) error {
	attributes := syscall.SysProcAttr{}
	if c.Attributes != nil {
		attributes = *c.Attributes
	}
	attributes.Ptrace = true
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	if err := install(filter(t.known, c.Lookups)); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{
		Dir: c.Dir, Env: env, Sys: &attributes,
		Files: []uintptr{s.files[0].Fd(), s.files[1].Fd(), s.files[2].Fd()},
	})
	if err != nil {
		return err
	}
	t.root, t.alive = pid, true
	t.tracees[pid] = &tracee{stopped: true}
	_, status, err := t.wait()
	if err != nil {
		return err
	}
	if !status.Stopped() {
		return errNotStarted
	}
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return fmt.Errorf("trace it: %w", err)
	}
	return t.resume(pid, 0)
}

// wait returns the next event of any tracee; children of other threads of this
// process are none of ours.
func (t *tracer) wait() (pid int, status unix.WaitStatus, err error) {
	for {
		pid, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return pid, status, err
		}
	}
}

func (t *tracer) handle(pid int, status unix.WaitStatus) error {
	if status.Exited() || status.Signaled() {
		t.ended(pid, status)
		return nil
	}
	if !status.Stopped() {
		return nil
	}
	one := t.tracees[pid]
	fresh := one == nil
	if fresh {
		// Its parent's event may come later.
		one = &tracee{}
		t.tracees[pid] = one
	}
	one.stopped = true
	if t.dying {
		return unix.Kill(pid, unix.SIGKILL)
	}
	event := int(status) >> 16
	switch sig := status.StopSignal(); {
	case event == unix.PTRACE_EVENT_SECCOMP:
		return t.enter(pid, one)
	case event == unix.PTRACE_EVENT_VFORK:
		one.vforks = true
		return t.resume(pid, 0)
	case event == unix.PTRACE_EVENT_VFORK_DONE:
		one.vforks = false
		return t.resume(pid, 0)
	case event == unix.PTRACE_EVENT_EXEC:
		// Executed by another thread than the first: that one is the first now.
		if former, err := unix.PtraceGetEventMsg(pid); err == nil && int(former) != pid {
			delete(t.tracees, int(former))
		}
		one.call = nil
		return t.resume(pid, 0)
	case event != 0:
		return t.resume(pid, 0)
	case sig == unix.SIGTRAP|0x80:
		return t.leave(pid, one)
	case sig == unix.SIGSTOP && fresh:
		return t.resume(pid, 0)
	default:
		return t.resume(pid, sig)
	}
}

func (t *tracer) ended(pid int, status unix.WaitStatus) {
	delete(t.tracees, pid)
	if pid != t.root {
		return
	}
	t.mu.Lock()
	t.alive = false
	t.mu.Unlock()
	t.result.ExitCode = status.ExitStatus()
	if status.Signaled() {
		t.result.Signal = status.Signal()
	}
	t.killAll()
}

func (t *tracer) resume(pid int, sig unix.Signal) error {
	t.tracees[pid].stopped = false
	return unix.PtraceCont(pid, int(sig))
}

// enter is called before a call is made.
func (t *tracer) enter(pid int, one *tracee) error {
	var regs registers
	if err := regs.read(pid); err != nil {
		return err
	}
	s, ok := t.known[regs.call()]
	if !ok {
		return t.resume(pid, 0)
	}
	path, to, counts := s.look(pid, regs.args())
	if !counts && s.name == "write" && strings.HasPrefix(path, "socket:") {
		if to = message(pid, regs.args(), t.words); to != "" {
			counts = true
		}
	}
	if !counts {
		return t.resume(pid, 0)
	}
	t.result.Calls++
	if t.at != 0 && t.at != t.result.Calls {
		return t.resume(pid, 0)
	}
	one.call = &Call{Index: t.result.Calls, Name: s.name, Path: path, To: to, TID: pid}
	a := t.ask(*one.call)
	switch {
	case a.kill:
		if err := regs.skip(pid, unix.EPERM); err != nil {
			return err
		}
		return t.kill(a)
	case a.errno != 0:
		one.call = nil
		if err := regs.skip(pid, a.errno); err != nil {
			return err
		}
		return t.resume(pid, 0)
	}
	one.stopped = false
	return unix.PtraceSyscall(pid, 0) // to its exit
}

// leave is called after a call was made.
func (t *tracer) leave(pid int, one *tracee) error {
	if one.call == nil {
		return t.resume(pid, 0)
	}
	var regs registers
	if err := regs.read(pid); err != nil {
		return err
	}
	call := *one.call
	call.Exit, call.Errno = true, regs.errno()
	one.call = nil
	if a := t.ask(call); a.kill {
		return t.kill(a)
	}
	return t.resume(pid, 0)
}

func (t *tracer) ask(c Call) (a Action) {
	t.elsewhere(func() { a = t.decide(c) })
	return a
}

// elsewhere calls f on a thread without the filter.
func (t *tracer) elsewhere(f func()) {
	t.calls <- f
	<-t.called
}

func (t *tracer) kill(a Action) error {
	t.result.Killed = true
	defer t.killAll()
	if a.do == nil {
		return nil
	}
	if err := t.stopAll(); err != nil {
		return err
	}
	var err error
	t.elsewhere(func() { err = a.do() })
	return err
}

// stopAll returns when no thread of the program runs. One that waits for the
// child that it forked does not: it cannot be stopped there.
func (t *tracer) stopAll() error {
	for pid, one := range t.tracees {
		if !one.stopped {
			_ = tkill(pid, unix.SIGSTOP)
		}
	}
	for t.running() {
		pid, status, err := t.wait()
		if err == unix.ECHILD {
			return nil
		}
		if err != nil {
			return err
		}
		if !status.Stopped() {
			t.ended(pid, status)
			continue
		}
		one := t.tracees[pid]
		if one == nil {
			one = &tracee{}
			t.tracees[pid] = one
		}
		one.stopped = true
		if int(status)>>16 == unix.PTRACE_EVENT_VFORK {
			one.vforks = true
		}
	}
	return nil
}

func (t *tracer) running() bool {
	for _, one := range t.tracees {
		if !one.stopped && !one.vforks {
			return true
		}
	}
	return false
}

func (t *tracer) killAll() {
	t.dying = true
	for pid := range t.tracees {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func tkill(tid int, sig unix.Signal) error {
	_, _, errno := syscall.RawSyscall(unix.SYS_TKILL, uintptr(tid), uintptr(sig), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
