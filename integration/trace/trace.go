// Package trace runs a program under a debugger's eyes and can end it, or have
// a call fail, at any call by which it changes a file system.
//
// All threads and all children of the program share one counter, so that every
// such call of a run is one numbered point: killing a program at each of them,
// before and after, in turn, leaves out nothing. A filter in the kernel hands
// over these calls alone; the others cost nothing.
//
// What counts: opening for writing or with O_CREAT or O_TRUNC; writes of all
// kinds to files; rename, link, symlink, unlink, mkdir, rmdir, mknod; truncate
// and fallocate; chmod, chown, utimes, xattrs; fsync and its kin; clones of
// files. What is done to pipes, sockets, terminals, devices and in /proc, /sys
// or /dev (but /dev/shm) does not, unless a command says so. Writes through a mapping of memory are not
// seen.
//
// Linux 4.8 or newer, on amd64 or arm64. No root is needed, no cgo and no other
// program, so this also works in a static binary inside a container.
package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is what to run.
type Command struct {
	Argv  []string // Argv[0] is the path of the program
	Env   []string // nil: as this process
	Dir   string   // empty: as this process
	Stdin []byte
	// Stdout and Stderr are where the output goes; nil: into the Result. Writes
	// to a regular file would count.
	Stdout, Stderr *os.File
	// Messages also makes a write to a socket count if what is written contains
	// one of these words: names of D-Bus methods, for one.
	Messages []string
	// Lookups also makes calls count that only look a name up: opens for reading, stat,
	// access. Between two calls that count, nothing then depends on what the
	// folders hold.
	Lookups bool
	// At is the number of the one call that decide is asked about; 0: of every
	// one. The others are counted, and cost a third.
	At int
	// Attributes are those of the new process, as for namespaces; may be nil.
	Attributes *syscall.SysProcAttr
}

// Call is a call that changes something, at its entry or at its exit.
type Call struct {
	Index int    // counted from 1 over all threads and children
	Name  string // of the system call, as in "renameat2"
	Path  string // of the file: absolute, cleaned, links not followed
	To    string // the second path of a rename or a link
	Exit  bool   // it was made; else it is about to be
	Errno syscall.Errno
	// Errno is how it ended, 0 for well; only at exit.

	TID int // of the thread that makes it
}

// String is a line for a person that names the point.
func (c Call) String() string {
	at := "entry"
	if c.Exit {
		at = "exit"
	}
	s := fmt.Sprintf("call %d %s at %s %s", c.Index, c.Name, at, c.Path)
	if c.To != "" {
		s += " -> " + c.To
	}
	if c.Errno != 0 {
		s += " (" + c.Errno.Error() + ")"
	}
	return s
}

// Action is what is to happen at a call. The zero Action lets it go on.
type Action struct {
	kill  bool
	do    func() error
	errno syscall.Errno
}

// GoOn lets the program go on.
func GoOn() Action { return Action{} }

// Kill kills the program with all its children, at once: at entry, the call is
// not made.
func Kill() Action { return Action{kill: true} }

// KillAfter stops everything, calls do, and then kills as Kill does. An error of
// do becomes Run's.
func KillAfter(do func() error) Action { return Action{kill: true, do: do} }

// Fail returns an error from a call instead of making it. Only at entry.
func Fail(errno syscall.Errno) Action { return Action{errno: errno} }

// Result is how a run ended.
type Result struct {
	Calls    int  // that counted
	Killed   bool // by an Action
	ExitCode int  // -1 when a signal ended it
	Signal   syscall.Signal
	Stdout   []byte // unless the command says where it goes
	Stderr   []byte
}

// Run runs the command to its end and asks decide, which may be nil, at every
// call that counts: at its entry, and, unless it was made to fail, at its exit.
// Children that outlive the program are killed. When ctx ends, all of it is
// killed and the error says so.
func Run(ctx context.Context, c Command, decide func(Call) Action) (Result, error) {
	if decide == nil {
		c.At = -1 // no call has this number
	}
	streams, err := openStreams(c)
	if err != nil {
		return Result{}, err
	}
	t := &tracer{decide: decide, at: c.At, calls: make(chan func()), called: make(chan struct{}), tracees: make(map[int]*tracee)}
	ended := make(chan error)
	go onOwnThread(func() {
		err := t.run(ctx, c, streams)
		close(t.calls)
		ended <- err
	})
	// decide may do anything, so it must not be called on that thread.
	for f := range t.calls {
		f()
		t.called <- struct{}{}
	}
	err = <-ended
	t.result.Stdout, t.result.Stderr = streams.close()
	if err == nil && ctx.Err() != nil && !t.result.Killed {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t.result, fmt.Errorf("trace %s: %w", strings.Join(c.Argv, " "), err)
	}
	return t.result, nil
}

// onOwnThread calls f on a thread that has no children yet. The tracer waits for
// any child of its thread, and would take another goroutine's away, which was
// started there before. The thread gets a filter that it cannot get rid of, so it
// ends with the goroutine: it is never unlocked.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if !hasChildren() {
		f()
		return
	}
	// This thread is taken, so another one it will be.
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// hasChildren reports whether this thread, not the process, has any.
func hasChildren() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil)
	return err != unix.ECHILD
}

// streams are the three files that the program starts with.
type streams struct {
	files  [3]*os.File // what the program gets
	ours   []*os.File  // of these, what we opened
	output [2]chan []byte
}

func openStreams(c Command) (*streams, error) {
	s := &streams{files: [3]*os.File{nil, c.Stdout, c.Stderr}}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.files[0], s.ours = r, append(s.ours, r)
	go func() {
		_, _ = io.Copy(w, bytes.NewReader(c.Stdin)) // a program need not read it all
		w.Close()
	}()
	for i := range s.output {
		if s.files[i+1] != nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.files[i+1], s.ours = w, append(s.ours, w)
		s.output[i] = make(chan []byte, 1)
		go func() {
			data, _ := io.ReadAll(r)
			r.Close()
			s.output[i] <- data
		}()
	}
	return s, nil
}

// close waits for the rest of the output; whoever could write any is dead.
func (s *streams) close() (stdout, stderr []byte) {
	for _, f := range s.ours {
		f.Close()
	}
	var data [2][]byte
	for i, c := range s.output {
		if c != nil {
			data[i] = <-c
		}
	}
	return data[0], data[1]
}

// errNotStarted is what a program that could not be executed looks like from
// outside.
var errNotStarted = errors.New("the program could not be executed")
