package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a program to run inside a host.
type Command struct {
	Args []string
	// Env is added to a root shell's environment: PATH, HOME, LANG and TERM.
	Env []string
	// Stdin is empty if nil.
	Stdin io.Reader
	// Unit runs the command in that unit's control group, as a child of one of
	// its processes would be. Otherwise it is in none of systemd's.
	Unit string
	// Output, if set, gets what Result.Stdout and Stderr get, as it is written.
	Output io.Writer
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int // exit code; 128 + the number of the signal that killed it; 127: not found
	Took           time.Duration
}

// Process is a command that was started in a host.
type Process struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	begun          time.Time
	done           chan struct{}
	result         Result
	err            error
}

// Run runs a command as root and waits for it. A command that fails is not an
// error: Result.Code says so. One that could not be run, or not to its end, is.
func (h *Host) Run(ctx context.Context, args ...string) (Result, error) {
	return h.RunCommand(ctx, Command{Args: args})
}

// RunCommand is Run with more to say about the command.
func (h *Host) RunCommand(ctx context.Context, c Command) (Result, error) {
	p, err := h.Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return p.Wait()
}

// Start starts a command without waiting for it. It is killed when ctx ends or
// the host is closed.
func (h *Host) Start(ctx context.Context, c Command) (*Process, error) {
	m, err := h.machine()
	if err != nil {
		return nil, err
	}
	// Outside of all units, but inside the host's part of the hierarchy. nsenter
	// stays there: a process that the host cannot see in a unit's group would keep
	// its systemd from killing the group.
	group := filepath.Join(h.cgroup.payload(), "operator")
	if err := os.MkdirAll(group, 0o755); err != nil {
		return nil, err
	}
	if c.Unit != "" {
		unit, err := h.Unit(ctx, c.Unit)
		if err != nil {
			return nil, err
		}
		if unit["ControlGroup"] == "" {
			return nil, fmt.Errorf("start %q in %s: the unit has no control group: it is %s", c.Args, c.Unit, unit["ActiveState"])
		}
		c.Args = append([]string{"sh", "-c", enterUnit, "sh", unit["ControlGroup"]}, c.Args...)
	}

	args := []string{"nsenter", "--target", strconv.Itoa(m.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"}
	ctx, cancel := context.WithCancel(ctx)
	cmd := inCgroup(ctx, []string{filepath.Join(group, "cgroup.procs")}, append(args, c.Args...)...)
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
	}, c.Env...)
	// nsenter and the command form a process group, to be killed together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	p := &Process{cmd: cmd, begun: time.Now(), done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, io.Writer(&p.stdout), io.Writer(&p.stderr)
	if c.Output != nil {
		both := &buffer{also: c.Output}
		p.stdout.also, p.stderr.also = both, both
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %q in %s: %w", c.Args, h.Name, err)
	}
	stop := context.AfterFunc(h.ctx, cancel)
	go keepGoing(cmd.Process.Pid)
	go func() {
		defer close(p.done)
		defer cancel()
		defer stop()
		p.finish(ctx, cmd.Wait())
	}()
	return p, nil
}

// keepGoing continues nsenter, which stops itself when its child is stopped, and
// then does not bury it. A host that shuts down stops all its processes before it
// ends them, and would wait for that one.
func keepGoing(nsenter int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, nsenter, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != cldStopped {
			return
		}
		_ = unix.Kill(nsenter, unix.SIGCONT)
	}
}

// cldStopped is a child's si_code in waitid(2).
const cldStopped = 5

func (p *Process) finish(ctx context.Context, err error) {
	p.result = Result{Stdout: p.stdout.String(), Stderr: p.stderr.String(), Took: time.Since(p.begun)}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		p.err = fmt.Errorf("%q: killed: %w\n%s%s", p.cmd.Args, context.Cause(ctx), p.result.Stdout, p.result.Stderr)
	case err != nil && !exited:
		p.err = err
	case ok && status.Signaled():
		p.result.Code = 128 + int(status.Signal())
	default:
		p.result.Code = p.cmd.ProcessState.ExitCode()
	}
}

// Wait returns how the command ended.
func (p *Process) Wait() (Result, error) {
	<-p.done
	return p.result, p.err
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output returns what the command has written so far.
func (p *Process) Output() (stdout, stderr string) {
	return p.stdout.String(), p.stderr.String()
}

// Signal sends a signal to the command, not to its children.
func (p *Process) Signal(s syscall.Signal) error {
	pid, err := p.pid()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// enterUnit moves itself, inside the host, into a control group in each hierarchy
// that systemd may use, and becomes the command.
const enterUnit = `for h in "" /unified /systemd; do
	f=/sys/fs/cgroup$h$1/cgroup.procs
	if [ -e "$f" ]; then echo $$ >"$f" || exit 125; fi
done
shift
exec "$@"`

// pid finds the command, the child of nsenter, seen from outside.
func (p *Process) pid() (int, error) {
	for deadline := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
		if err == nil && len(bytes.Fields(data)) > 0 {
			return strconv.Atoi(strings.Fields(string(data))[0])
		}
		if err != nil || time.Now().After(deadline) {
			return 0, fmt.Errorf("find the process of %q: it has ended or not begun: %v", p.cmd.Args, err)
		}
	}
}

// buffer collects output that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	also io.Writer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.also != nil {
		b.also.Write(data)
	}
	return b.b.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
