package systemd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Transient is a program that runs in a unit of its own, so that it survives its caller: the
// caller may be a child of the very agent that the program stops.
type Transient struct {
	Name        string // "teleport-update-switch-….service"; empty: one is made up
	Description string
	Argv        []string // the first is an absolute path
	Env         []string // NAME=value; nothing is inherited
	// The program gets these files themselves; nil is /dev/null for Stdin and the
	// journal for the others.
	Stdin, Stdout, Stderr *os.File
	// RuntimeMax ends the program if it runs longer. Zero: no limit.
	RuntimeMax time.Duration
	// StopPost runs after the program has ended in any way; $SERVICE_RESULT says how
	// (systemd.exec(5)). The exit code is still the program's.
	StopPost []string
	// After is a unit whose start, if one is pending, comes first. Nobody waits for the program then.
	After string
}

const (
	transientPoll = 200 * time.Millisecond
	transientKept = time.Minute
	// transientScore makes the kernel kill the agent before the program that would bring it back.
	transientScore = -900
)

// GoesOnError means that a program was started, and goes on in its unit although nobody waits for
// it any more.
type GoesOnError struct {
	Unit string
	Err  error // why nobody waits
}

func (e *GoesOnError) Error() string {
	return fmt.Sprintf("follow %s, which goes on: %v", e.Unit, e.Err)
}

func (e *GoesOnError) Unwrap() error { return e.Err }

// RunTransient runs the program and returns its exit code when it has ended. If
// ctx ends first, which is a GoesOnError, or the caller dies, the program goes on.
//
// A program that a signal ended has the code 128 plus the signal's number and an
// error that says so. Any other error means that the program was not started, or
// that its exit code is not known; then the code is -1.
//
// The unit stays until its exit code was read. A unit that nobody
// waited for is removed by a later call.
func (c *Conn) RunTransient(ctx context.Context, t Transient) (exitCode int, err error) {
	if len(t.Argv) == 0 || !filepath.IsAbs(t.Argv[0]) {
		return -1, errors.New("a transient unit needs the absolute path of a program")
	}
	c.removeEnded(ctx, transientKept)
	name := t.Name
	if name == "" {
		name = transientPrefix + strings.ToLower(rand.Text()[:10]) + ".service"
	}
	job, err := once(ctx, c, func(ctx context.Context, l *link) (PendingJob, error) {
		var result chan string
		if t.After == "" {
			result = make(chan string, 1)
		}
		id, err := l.api.StartTransientUnitContext(ctx, name, "fail", t.properties(), result)
		return PendingJob{VerbStart, name, uint32(id), result}, err
	})
	runtime.KeepAlive(t) // its files must stay open until systemd has them
	if t.After != "" {
		return 0, err
	}
	switch unsure := errors.Is(err, ErrBroken) || ctx.Err() != nil; {
	case err == nil:
		// A job that failed leaves a unit whose state says more.
		_ = c.WaitJob(ctx, job, JobCap)
	case !unsure || !c.loaded(context.WithoutCancel(ctx), name):
		return -1, fmt.Errorf("start %s in a unit of its own: %w", t.Argv[0], whyEnded(ctx, err))
	}
	return c.follow(ctx, name)
}

// follow waits until the unit has ended, reads its exit status, and removes it.
func (c *Conn) follow(ctx context.Context, name string) (int, error) {
	signals := c.Listen(name)
	defer signals.Close()
	for {
		if err := signals.Follow(ctx); err != nil {
			return -1, &GoesOnError{Unit: name, Err: whyEnded(ctx, err)}
		}
		u, err := c.Unit(ctx, name)
		switch {
		case err != nil:
			return -1, &GoesOnError{Unit: name, Err: whyEnded(ctx, err)}
		case u.LoadState != "loaded", u.ActiveState == "inactive" && !u.JobPending:
			return -1, fmt.Errorf("%s was stopped and removed by somebody else: its exit code is not known", name)
		case u.ActiveState == "failed", u.SubState == "exited":
			c.removeUnit(context.WithoutCancel(ctx), name)
			return u.Exit.shellCode(name, u.Result)
		}
		signals.Wait(ctx, transientPoll)
		if ctx.Err() != nil {
			return -1, &GoesOnError{Unit: name, Err: context.Cause(ctx)}
		}
	}
}

// whyEnded returns the cause of the end of ctx if ctx ended: err itself does not have it.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// shellCode is the exit status as a shell reports it.
func (e ExitStatus) shellCode(name, result string) (int, error) {
	switch e.Code {
	case Exited:
		// systemd's own codes, for a process that it could not set up; the program must not use them.
		if e.Status >= 200 {
			return -1, fmt.Errorf("%s %v (systemd reports %q)", name, e, result)
		}
		return int(e.Status), nil
	case Killed, Dumped:
		return 128 + int(e.Status), fmt.Errorf("%s was killed by %s (systemd reports %q)", name, signalName(e.Status), result)
	}
	return -1, fmt.Errorf("%s did not run (systemd reports %q)", name, result)
}

// RemoveEnded removes the units of ended programs that nobody waited for: a failed one keeps the
// host "degraded", even after a soft reboot.
//
// It also removes what trials left whose process was ended.
func (c *Conn) RemoveEnded(ctx context.Context) {
	c.removeEnded(ctx, transientKept)
	c.removeCanaries(ctx)
}

// TransientsLeft reports, without asking systemd, whether there are units of programs, or of trials, at all.
func TransientsLeft() bool {
	left, err := filepath.Glob("/run/systemd/transient/" + transientPrefix + "*.service")
	return err == nil && len(left) > 0 || canariesLeft()
}

// removeEnded removes the units of ended programs that nobody waited for. A unit that ended
// recently stays, because a caller may be about to read its exit code, unless it ended before a
// soft reboot, which ended all callers.
func (c *Conn) removeEnded(ctx context.Context, older time.Duration) {
	units, err := do(ctx, c, func(ctx context.Context, l *link) ([]sdbus.UnitStatus, error) {
		return l.api.ListUnitsByPatternsContext(ctx, nil, []string{transientPrefix + "*.service"})
	})
	if err != nil {
		return
	}
	up, err := c.Unit(ctx, StartOfUnits)
	if err != nil {
		return
	}
	for _, u := range units {
		if u.ActiveState != "failed" && u.SubState != "exited" {
			continue
		}
		if u, err := c.Unit(ctx, u.Name); err == nil && (u.InState > older || u.changed < up.changed) {
			c.removeUnit(ctx, u.Name)
		}
	}
}

// removeUnit makes systemd forget a transient unit that has ended. The unit has no process any
// more: if this does not work, nothing is lost.
func (c *Conn) removeUnit(ctx context.Context, name string) {
	_ = c.Stop(ctx, name)
	_ = c.ResetFailed(ctx, name)
}

func (c *Conn) loaded(ctx context.Context, name string) bool {
	u, err := c.Unit(ctx, name)
	return err == nil && u.LoadState == "loaded"
}

// unexpanded keeps systemd from taking "$" for the beginning of a variable.
func unexpanded(argv []string) []string {
	var args []string
	for _, arg := range argv {
		args = append(args, strings.ReplaceAll(arg, "$", "$$"))
	}
	return args
}

type execCommand struct {
	Path         string
	Args         []string
	IgnoreStatus bool
}

// properties are all known to systemd 239, which is the oldest in use.
func (t Transient) properties() []sdbus.Property {
	set := func(name string, value any) sdbus.Property {
		return sdbus.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	runtimeMax := uint64(math.MaxUint64)
	if t.RuntimeMax > 0 {
		runtimeMax = uint64(t.RuntimeMax.Microseconds())
	}
	p := []sdbus.Property{
		set("Description", t.Description),
		set("ExecStart", []execCommand{{t.Argv[0], unexpanded(t.Argv), false}}),
		set("Environment", append([]string{}, t.Env...)),
		set("Slice", "system.slice"),
		set("KillMode", "mixed"),
		set("TimeoutStopUSec", uint64(stopLimit.Microseconds())),
		set("RuntimeMaxUSec", runtimeMax),
		set("IgnoreSIGPIPE", true),
		// The exit code has to stay readable: a client of the private socket cannot hold a reference to
		// a unit, and a unit without references vanishes with its exit code as soon as it is inactive.
		// Nobody reads the exit code of a unit with After.
		set("RemainAfterExit", t.After == ""),
		set("OOMScoreAdjust", int32(transientScore)),
	}
	if t.After != "" {
		p = append(p, set("After", []string{t.After}))
	}
	if len(t.StopPost) > 0 {
		p = append(p, set("ExecStopPost", []execCommand{{t.StopPost[0], unexpanded(t.StopPost), false}}))
	}
	for _, stream := range []struct {
		name string
		file *os.File
	}{
		{"StandardInputFileDescriptor", t.Stdin},
		{"StandardOutputFileDescriptor", t.Stdout},
		{"StandardErrorFileDescriptor", t.Stderr},
	} {
		if stream.file != nil {
			p = append(p, set(stream.name, descriptor(stream.file)))
		}
	}
	return p
}

// descriptor does not make the file blocking, as os.File.Fd may.
func descriptor(f *os.File) dbus.UnixFD {
	fd := dbus.UnixFD(-1)
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(n uintptr) { fd = dbus.UnixFD(n) })
	}
	return fd
}
