// Package successor runs a newer build of this program in the place of the
// running one, and says whether the newer one failed as a program or came to a
// decision.
//
// The newer one gets the arguments, the environment and the three standard
// streams, and also a pipe, on which it writes one byte when it has begun
// and one when its end will be intended. A program that ends without the second byte
// may be broken, and one that does not write the first in time hangs: then
// the caller has to do the work itself.
//
// A program that was run this way never runs another: Current is not nil there.
package successor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// variable is set in the environment of a successor, to the device and inode of the pipe on
// pipeFD: if the variable strays into another program's environment, that program does not write
// into some file of its own.
const variable = "TELEPORT_UPDATE_SUCCESSOR"

const pipeFD = 3

const (
	begun   = 'b'
	decided = 'd'
	over    = 'o' // not written by the successor: the process that runs it ends the reading with it
)

// stopPatience is how long a hanging successor has to obey SIGTERM.
const stopPatience = 5 * time.Second

// Command is a successor to run.
type Command struct {
	Path string   // of the program
	Args []string // without the program's name
	// StartLimit bounds the time until it begins, Limit the whole run. If it takes longer, and
	// Untouched reports that it has changed nothing yet, it is ended.
	StartLimit, Limit time.Duration
	Untouched         func() bool
}

// Ending is how a successor ended.
type Ending struct {
	Code    int   // exit code; 128 plus the signal's number if it was killed
	Decided bool  // it meant to end like this
	Err     error // how it failed; nil if it intended to end with 0
}

// Run runs a successor and waits for its end. When ctx ends, Run asks it to terminate, and still
// waits. An error means that it could not be started.
func Run(ctx context.Context, c Command) (Ending, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Ending{}, err
	}
	defer r.Close()
	defer w.Close()
	info, err := w.Stat()
	if err != nil {
		return Ending{}, err
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), variable+"="+identity(info.Sys().(*syscall.Stat_t)))
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		return Ending{}, err
	}
	p := &running{Command: c, process: cmd.Process, begun: make(chan struct{}), said: make(chan struct{})}
	go p.listen(r)
	ended := make(chan struct{})
	go func() {
		// A program that it left behind may hold its streams; they are files, so nobody waits for them.
		_ = cmd.Wait()
		close(ended)
	}()
	hung := p.attend(ctx, ended)
	// The successor's bytes are in the pipe already, and this comes after them. The pipe's end may
	// never come, because a program that was left behind holds it open; and a limit of time would be
	// over too early on a busy host.
	select {
	case <-p.said:
	default:
		if _, err := w.Write([]byte{over}); err != nil {
			r.Close()
		}
	}
	<-p.said
	return p.ending(cmd.ProcessState, hung), nil
}

type running struct {
	Command
	process *os.Process
	begun   chan struct{} // closed when it has begun
	said    chan struct{} // closed when it writes no more
	decided bool          // readable then
}

func (p *running) listen(r *os.File) {
	defer close(p.said)
	begin := sync.OnceFunc(func() { close(p.begun) })
	b := make([]byte, 1)
	for {
		if n, err := r.Read(b); n == 0 || err != nil || b[0] == over {
			return
		}
		begin()
		if b[0] == decided {
			p.decided = true
			return
		}
	}
}

// attend waits for the end, and ends a successor that hangs.
func (p *running) attend(ctx context.Context, ended <-chan struct{}) (hung error) {
	start, all := time.NewTimer(p.StartLimit), time.NewTimer(p.Limit)
	defer start.Stop()
	defer all.Stop()
	var kill <-chan time.Time
	end := func(why error) {
		if hung == nil && p.Untouched() {
			hung = why
			_ = p.process.Signal(syscall.SIGTERM)
			kill = time.After(stopPatience)
		}
	}
	stopped, begun := ctx.Done(), p.begun
	for {
		select {
		case <-ended:
			return hung
		case <-stopped:
			stopped = nil
			_ = p.process.Signal(syscall.SIGTERM)
		case <-begun:
			start.Stop()
			begun = nil
		case <-start.C:
			end(fmt.Errorf("it did nothing for %v", p.StartLimit))
		case <-all.C:
			end(fmt.Errorf("it did not end within %v", p.Limit))
		case <-kill:
			_ = p.process.Kill()
		}
	}
}

func (p *running) ending(state *os.ProcessState, hung error) Ending {
	e := Ending{Code: state.ExitCode(), Decided: p.decided && hung == nil}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Code = 128 + int(status.Signal())
	}
	switch {
	case hung != nil:
		e.Err = hung
	case e.Code != 0 || !e.Decided:
		e.Err = errors.New(state.String())
	}
	return e
}

// Successor is the successor's side of the pipe.
type Successor struct{ pipe *os.File }

// Current returns this process's side as a successor; nil for a process that does not run as one.
// There is one for the whole process, because its pipe must not be closed along with another copy.
var Current = sync.OnceValue(current)

func current() *Successor {
	id := os.Getenv(variable)
	if id == "" {
		return nil
	}
	s := &Successor{}
	var st syscall.Stat_t
	if syscall.Fstat(pipeFD, &st) == nil && identity(&st) == id {
		unix.CloseOnExec(pipeFD)
		s.pipe = os.NewFile(pipeFD, "predecessor")
	}
	return s
}

// Begin reports that the program runs.
func (s *Successor) Begin() { s.say(begun) }

// Decide reports that the program ends as intended.
func (s *Successor) Decide() { s.say(decided) }

// say ignores that the other side is gone.
func (s *Successor) say(b byte) {
	if s != nil && s.pipe != nil {
		_, _ = s.pipe.Write([]byte{b})
	}
}

func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%d:%d", st.Dev, st.Ino) }
