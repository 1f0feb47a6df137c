package systemd

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
)

// Unit is what systemd knows about a unit, all of it read at one moment.
type Unit struct {
	Name          string
	LoadState     string // "loaded", "not-found", "masked", …
	ActiveState   string // "active", "inactive", "failed", "activating", …
	SubState      string // "running", "dead", "auto-restart", …
	Result        string // of the last run: "success", "exit-code", "signal", "timeout", …
	UnitFileState string // "enabled", "disabled", "static", …

	FragmentPath     string     // the unit file in use
	SourcePath       string     // that the unit file was generated from, as a script of SysV's; empty if it was not
	DropIns          []string   // files that add to it
	ExecStart        string     // path of the first command
	Command          []string   // the words of that command, the program first
	Later            [][]string // the commands after it, of a unit that has several
	Literal          bool       // variables in the first command stay as they are
	Environment      []string   // NAME=VALUE, as the unit names them
	EnvironmentFiles []string   // which count before those; "-" comes before one that may be missing
	UnsetEnvironment []string   // NAME or NAME=VALUE, which count before all
	User             string     // empty: root
	DynamicUser      bool       // User is made for each run
	PassesModes      bool       // modes of files do not bind User (AmbientCapabilities=CAP_DAC_OVERRIDE)
	Type             string     // "simple", "notify", …
	PIDFile          string     // empty if the unit names none
	CanReload        bool
	NeedDaemonReload bool   // the files changed since systemd read them
	Frozen           bool   // somebody keeps its processes from running (`systemctl freeze`)
	FrozenBy         string // the unit that was frozen, if that shows: this one, or a slice that has it

	Ties Ties // to other units, and to what is asked of it

	MainPID      uint32 // 0 if there is none
	ControlGroup string // empty if the unit runs no process
	InvocationID string // of this run, 32 hex digits; every start has its own
	NRestarts    uint32 // restarts by systemd itself since somebody started the unit
	Restart      string // after which ends systemd starts it again: "no", "on-failure", …
	JobPending   bool

	RestartDelay time.Duration            // pause before systemd starts a unit that died
	StartTimeout time.Duration            // Forever if there is none
	StopTimeout  time.Duration            // Forever if there is none
	Limits       map[string]time.Duration // after which systemd ends the unit or its job, by property

	Exit    ExitStatus    // how the main process ended last
	ExitPID uint32        // which one that was, where none runs
	AtOnce  bool          // after that end it came to its state sooner than systemd starts it again
	Job     Job           // the zero Job: none is pending
	changed time.Duration // when the state changed last, on the monotonic clock
	InState time.Duration // for how long it was in its state when it was looked at; as long as the kernel runs if it never changed
	Since   time.Time     // when it became active, or else reached its state, by the clock; zero if that is not known

	StartedAt   time.Time // when the main process was started last; zero if none was
	ExitedAt    time.Time // when the main process ended last; zero if none did
	Skipped     time.Time // when systemd last did not start it, by a condition or an assertion that did not hold; zero if it was started since
	Triggers    []string  // of a timer: what it starts
	Watches     []string  // of a .path unit: the kinds of its paths, "PathExists", "PathChanged", …
	LastTrigger time.Time // of a timer: when it last started something; zero if it never did
	Triggered   time.Time // LastTrigger, if that was in this boot
	NextTrigger time.Time // of a timer: when it will next; zero if it will not, or nobody can tell
}

// Runs reports whether one of the unit's commands has a word, as the updater's own have that
// of what they do.
func (u Unit) Runs(word string) bool {
	return slices.ContainsFunc(append([][]string{u.Command}, u.Later...), func(words []string) bool { return slices.Contains(words, word) })
}

// RunsByShell reports whether a word of one of the unit's commands, as the text that a shell is given, has some words in it: whether
// they are executed, nobody can tell.
func (u Unit) RunsByShell(words string) bool {
	return slices.ContainsFunc(append([][]string{u.Command}, u.Later...), func(all []string) bool {
		return slices.ContainsFunc(all, func(word string) bool { return strings.Contains(word, words) })
	})
}

// Running reports whether the unit runs: it may be reloading, or be asked to
// stop.
func (u Unit) Running() bool {
	switch u.ActiveState {
	case "active":
		// After a reload, sub states name what it does; "exited" is a service
		// without a process.
		return u.SubState == "running" || strings.HasPrefix(u.SubState, "reload")
	case "reloading", "refreshing":
		return true
	}
	return false
}

// Idle reports whether the unit neither runs nor fails nor is about to be
// started: nobody wants the agent to run, so an update leaves it alone
// (RFD 0169: a version is active "if successful or not enabled"). One that a
// stop left as failed is idle, too. One that was restarted before may as well have come
// to its limit of starts, which systemd finds when it starts it again.
func (u Unit) Idle() bool {
	stopped := u.ActiveState == "inactive"
	failed := u.FailedByAStop() && (u.NRestarts == 0 || u.AtOnce)
	return (stopped || failed) && !u.JobPending
}

// FailedByAStop reports whether the unit failed in a way in which one that is stopped fails, and
// systemd leaves it at that although it starts the unit again after such an end: then
// somebody asked for a stop. systemd kills a process at once that it learned of from
// the PID file and that is no child of its own, and each one that takes too long. And a
// command of ExecStop= or ExecStopPost= may fail although the process ended as it was asked to.
func (u Unit) FailedByAStop() bool {
	if u.ActiveState != "failed" {
		return false
	}
	asked := u.Exit == ExitStatus{Code: Exited} || u.Exit.Terminated()
	onFailure := u.Restart == "always" || u.Restart == "on-failure"
	onAbnormal := onFailure || u.Restart == "on-abnormal"
	switch u.Result {
	case "exit-code":
		return asked && onFailure
	case "signal", "core-dump":
		killed := u.Exit == ExitStatus{Killed, int32(syscall.SIGKILL)}
		return (asked || killed) && (onAbnormal || u.Restart == "on-abort")
	case "timeout":
		return onAbnormal
	}
	return false
}

// Thaw is the command that has the processes of a frozen unit go on.
func (u Unit) Thaw() string {
	return "systemctl thaw " + strings.TrimSuffix(cmp.Or(u.FrozenBy, u.Name), ".service")
}

// StartOfUnits is active from early in each start of the host's units to their end. Its invocation
// tells one start from another: a soft reboot (systemd 254) starts all units again, and the kernel, its
// boot id and its clocks go on.
const StartOfUnits = "sysinit.target"

// monotonic is the time on the clock of systemd's monotonic stamps; zero if it cannot be read.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// isLost reports whether systemd has a unit as masked although nobody masked it: where packages and the updater put units,
// an empty file is what a full disk or a power cut left of one. A link there is the mask of a package.
func (u Unit) isLost() bool {
	if u.LoadState != "masked" || u.FragmentPath == "" {
		return false
	}
	for _, dir := range maskFolders {
		if filepath.Dir(u.FragmentPath) == dir {
			return false
		}
	}
	info, err := os.Lstat(u.FragmentPath)
	return err == nil && info.Mode()&fs.ModeType == 0
}

// Unit returns the state of a unit. One that does not exist is no error: its
// LoadState is "not-found", and so is that of one whose file was lost, which systemd calls masked.
func (c *Conn) Unit(ctx context.Context, name string) (Unit, error) {
	u, err := do(ctx, c, func(ctx context.Context, l *link) (Unit, error) {
		p, err := l.properties(ctx, unitPath(name))
		if err != nil {
			return Unit{}, err
		}
		now := monotonic()
		p.setBack(time.Now(), now)
		u := parseUnit(name, p)
		u.InState = max(now-u.changed, 0)
		// systemd 252 does not tell a unit that its slice is frozen.
		if group := procfs.Host().FrozenAt(u.ControlGroup); group != "" {
			u.Frozen, u.FrozenBy = true, filepath.Base(group)
		}
		return u, nil
	})
	if err != nil {
		return Unit{}, fmt.Errorf("read the state of %s: %w", name, err)
	}
	if u.isLost() {
		u.LoadState = "not-found"
	}
	return u, nil
}

// properties asks for those of all interfaces of a unit in one answer, so that they belong together. There
// are some 350 of a service, so they are taken as they were decoded: a copy of them would be a fifth of the memory that a
// run of the timer allocates.
func (l *link) properties(ctx context.Context, path dbus.ObjectPath) (properties, error) {
	call := l.calls.Object("org.freedesktop.systemd1", path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, "")
	if call.Err != nil {
		return nil, call.Err
	}
	if len(call.Body) == 1 {
		if p, ok := call.Body[0].(map[string]dbus.Variant); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("systemd answered with %d values that are not properties", len(call.Body))
}

func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + sdbus.PathBusEscape(name))
}

// A Job is a start, stop, restart or reload that is queued or running.
type Job struct {
	ID   uint32 // systemd numbers jobs as they come; 0: none
	path dbus.ObjectPath
}

// parseUnit takes what is there: old versions of systemd lack some properties.
func parseUnit(name string, p properties) Unit {
	u := Unit{
		Name:             name,
		LoadState:        property[string](p, "LoadState"),
		ActiveState:      property[string](p, "ActiveState"),
		SubState:         property[string](p, "SubState"),
		Result:           property[string](p, "Result"),
		UnitFileState:    property[string](p, "UnitFileState"),
		FragmentPath:     property[string](p, "FragmentPath"),
		SourcePath:       property[string](p, "SourcePath"),
		DropIns:          property[[]string](p, "DropInPaths"),
		Environment:      property[[]string](p, "Environment"),
		EnvironmentFiles: environmentFiles(p),
		UnsetEnvironment: property[[]string](p, "UnsetEnvironment"),
		User:             property[string](p, "User"),
		DynamicUser:      property[bool](p, "DynamicUser"),
		PassesModes:      property[uint64](p, "AmbientCapabilities")&(1<<unix.CAP_DAC_OVERRIDE) != 0,
		Type:             property[string](p, "Type"),
		PIDFile:          property[string](p, "PIDFile"),
		CanReload:        property[bool](p, "CanReload"),
		NeedDaemonReload: property[bool](p, "NeedDaemonReload"),
		MainPID:          property[uint32](p, "MainPID"),
		ControlGroup:     property[string](p, "ControlGroup"),
		NRestarts:        property[uint32](p, "NRestarts"),
		Restart:          property[string](p, "Restart"),
		RestartDelay:     limit(property[uint64](p, "RestartUSec")),
		StartTimeout:     limit(property[uint64](p, "TimeoutStartUSec")),
		StopTimeout:      limit(property[uint64](p, "TimeoutStopUSec")),
		changed:          limit(property[uint64](p, "StateChangeTimestampMonotonic")),
		Exit: ExitStatus{
			Code:   property[int32](p, "ExecMainCode"),
			Status: property[int32](p, "ExecMainStatus"),
		},
		ExitPID: property[uint32](p, "ExecMainPID"),
		Ties:    parseTies(p),
		Limits:  parseLimits(p),
	}
	if id := property[[]byte](p, "InvocationID"); len(id) > 0 && strings.Trim(string(id), "\x00") != "" {
		u.InvocationID = hex.EncodeToString(id)
	}
	if commands := property[[][]any](p, "ExecStart"); len(commands) > 0 && len(commands[0]) > 0 {
		u.ExecStart, _ = commands[0][0].(string)
		if len(commands[0]) > 1 {
			u.Command, _ = commands[0][1].([]string)
		}
		for _, command := range commands[1:] {
			if len(command) > 1 {
				words, _ := command[1].([]string)
				u.Later = append(u.Later, words)
			}
		}
	}
	if commands := property[[][]any](p, "ExecStartEx"); len(commands) > 0 && len(commands[0]) > 2 {
		flags, _ := commands[0][2].([]string)
		u.Literal = slices.Contains(flags, "no-env-expand")
	}
	if j := property[[]any](p, "Job"); len(j) == 2 {
		u.Job.ID, _ = j[0].(uint32)
		u.Job.path, _ = j[1].(dbus.ObjectPath)
	}
	u.JobPending = u.Job.ID != 0
	freezer := property[string](p, "FreezerState")
	u.Frozen = strings.HasPrefix(freezer, "frozen") || strings.HasPrefix(freezer, "freezing") // by itself, or with its slice
	ended := limit(property[uint64](p, "ExecMainExitTimestampMonotonic"))
	u.AtOnce = ended > 0 && u.changed >= ended && u.changed-ended < u.RestartDelay
	since := "StateChangeTimestamp"
	if u.Running() {
		since = "ActiveEnterTimestamp"
	}
	u.Since = moment(p, since)
	u.StartedAt = moment(p, "ExecMainStartTimestamp")
	u.ExitedAt = moment(p, "ExecMainExitTimestamp")
	u.LastTrigger, u.NextTrigger = moment(p, "LastTriggerUSec"), moment(p, "NextElapseUSecRealtime")
	u.Triggers = property[[]string](p, "Triggers")
	for _, fields := range property[[][]any](p, "Paths") {
		u.Watches = append(u.Watches, text(fields, 0))
	}
	if property[uint64](p, "LastTriggerUSecMonotonic") > 0 {
		u.Triggered = u.LastTrigger // else it is that of a boot before, which a persistent timer remembers
	}
	for _, kind := range []string{"Condition", "Assert"} {
		if at := moment(p, kind+"Timestamp"); denied(p, kind+"Result") && at.After(u.Skipped) {
			u.Skipped = at
		}
	}
	return u
}

// moment is a time by the clock; zero if it never came, or never comes.
func moment(p properties, name string) time.Time {
	usec := property[uint64](p, name)
	if usec == 0 || usec >= math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec)).UTC()
}
