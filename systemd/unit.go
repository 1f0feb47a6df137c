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

// Unit is systemd's data about a unit, all of it read at one moment.
type Unit struct {
	Name          string
	LoadState     string // "loaded", "not-found", "masked", …
	ActiveState   string // "active", "inactive", "failed", "activating", …
	SubState      string // "running", "dead", "auto-restart", …
	Result        string // of the last run: "success", "exit-code", "signal", "timeout", …
	UnitFileState string // "enabled", "disabled", "static", …

	FragmentPath     string     // the unit file in use
	SourcePath       string     // the file that the unit file was generated from, as a script of SysV's; empty if it was not
	DropIns          []string   // files that add to it
	ExecStart        string     // path of the first command
	Command          []string   // the words of that command, the program first
	Later            [][]string // the commands after the first, if a unit has several
	Literal          bool       // variables in the first command stay as they are
	Environment      []string   // NAME=VALUE, as the unit names them
	EnvironmentFiles []string   // they rank below Environment; "-" comes before one that may be missing
	UnsetEnvironment []string   // NAME or NAME=VALUE, which rank above both
	User             string     // empty: root
	DynamicUser      bool       // User is made for each run
	PassesModes      bool       // modes of files do not bind User (AmbientCapabilities=CAP_DAC_OVERRIDE)
	Type             string     // "simple", "notify", …
	PIDFile          string     // empty if the unit names none
	CanReload        bool
	NeedDaemonReload bool   // the files changed since systemd read them
	Frozen           bool   // somebody keeps its processes from running (`systemctl freeze`)
	FrozenBy         string // the unit that was frozen, if known: this one, or a slice that has it

	Ties Ties // to other units, and limits on requests

	MainPID      uint32 // 0 if there is none
	ControlGroup string // empty if the unit runs no process
	InvocationID string // of this run, 32 hex digits; every start has its own
	NRestarts    uint32 // restarts by systemd itself since somebody started the unit
	Restart      string // after which ends systemd starts it again: "no", "on-failure", …
	JobPending   bool

	RestartDelay time.Duration     // pause before systemd starts a unit that died
	StartTimeout time.Duration     // Forever if there is none
	StopTimeout  time.Duration     // Forever if there is none
	Limits       map[string]uint64 // by which systemd ends the unit, its job or its writes, by property

	Exit    ExitStatus    // how the main process ended last
	ExitPID uint32        // the PID of that main process, if none runs now
	AtOnce  bool          // it reached its state after that end sooner than systemd starts it again
	Job     Job           // the zero Job: none is pending
	changed time.Duration // when the state changed last, on the monotonic clock
	InState time.Duration // how long it has been in its state; since the kernel's start if it never changed
	Since   time.Time     // when it became active, or reached its state if it does not run, by the clock; zero if that is not known

	StartedAt   time.Time // when the main process was started last; zero if none was
	ExitedAt    time.Time // when the main process ended last; zero if none did
	Skipped     time.Time // when a condition or an assertion last made systemd skip its start; zero if it was started since
	Triggers    []string  // of a timer: the units that it starts
	Watches     []string  // of a .path unit: the kinds of its paths, "PathExists", "PathChanged", …
	LastTrigger time.Time // of a timer: when it last started something; zero if it never did
	Triggered   time.Time // LastTrigger, if that was in this boot
	NextTrigger time.Time // of a timer: when it will next; zero if it will not, or if that is unknown
}

// Runs reports whether one of the unit's commands has a word. Each command of the updater's own
// units has the name of its action.
func (u Unit) Runs(word string) bool {
	return slices.ContainsFunc(append([][]string{u.Command}, u.Later...), func(words []string) bool { return slices.Contains(words, word) })
}

// RunsByShell reports whether a word of one of the unit's commands, such as the text for a shell, contains words. Nobody can say
// whether the shell executes them.
func (u Unit) RunsByShell(words string) bool {
	return slices.ContainsFunc(append([][]string{u.Command}, u.Later...), func(all []string) bool {
		return slices.ContainsFunc(all, func(word string) bool { return strings.Contains(word, words) })
	})
}

// Running reports whether the unit runs: it may also be reloading, or about to stop.
func (u Unit) Running() bool {
	switch u.ActiveState {
	case "active":
		// After a reload, sub states name its steps; "exited" is a service without a process.
		return u.SubState == "running" || strings.HasPrefix(u.SubState, "reload")
	case "reloading", "refreshing":
		return true
	}
	return false
}

// Idle reports whether the unit neither runs nor fails nor is about to be started: nobody wants
// the agent to run, so an update leaves it alone (RFD 0169: a version is active "if successful or
// not enabled"). A unit that failed by a stop is idle, too. A failed unit that systemd restarted
// before does not count unless AtOnce: it may have come to its limit of starts, which systemd
// finds at the next start.
func (u Unit) Idle() bool {
	stopped := u.ActiveState == "inactive"
	failed := u.FailedByAStop() && (u.NRestarts == 0 || u.AtOnce)
	return (stopped || failed) && !u.JobPending
}

// FailedByAStop reports whether the unit failed as a stopped unit fails, and systemd did not start
// it again although it does so after such an end: then somebody asked for a stop. systemd kills a
// process at once if it knows it from the PID file alone and it is no child of systemd, and each
// process that takes too long. And a command of ExecStop= or ExecStopPost= may fail although the
// process ended as requested.
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

// Thaw returns the command that lets the processes of a frozen unit continue.
func (u Unit) Thaw() string {
	return "systemctl thaw " + strings.TrimSuffix(cmp.Or(u.FrozenBy, u.Name), ".service")
}

// StartOfUnits is active from early in each start of the host's units to their end. Its invocation
// distinguishes two starts: a soft reboot (systemd 254) starts all units again, but the kernel, its
// boot id and its clocks continue.
const StartOfUnits = "sysinit.target"

// monotonic is the time on the clock of systemd's monotonic stamps; zero if it cannot be read.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// isLost reports whether systemd takes a unit for masked although nobody masked it: in the folders of packages and the
// updater, an empty unit file is left by a full disk or a power cut. A link there is the mask of a package.
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

// Unit returns the state of a unit. A missing unit is no error: its LoadState is "not-found". So
// is the LoadState of a unit whose file was lost, which systemd calls masked.
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
		// systemd 252 does not report that a unit's slice is frozen.
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

// properties reads the properties of all interfaces of a unit in one answer, so that they belong together. A service has
// some 350, so they are not copied: a copy would be a fifth of the memory that a run of the timer allocates.
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

// parseUnit takes the properties that exist: old versions of systemd lack some.
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
		u.Triggered = u.LastTrigger // otherwise it is from an earlier boot: a persistent timer keeps it
	}
	for _, kind := range []string{"Condition", "Assert"} {
		if at := moment(p, kind+"Timestamp"); denied(p, kind+"Result") && at.After(u.Skipped) {
			u.Skipped = at
		}
	}
	return u
}

// moment returns a time by the clock; zero if it never came, or never comes.
func moment(p properties, name string) time.Time {
	usec := property[uint64](p, name)
	if usec == 0 || usec >= math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec)).UTC()
}
