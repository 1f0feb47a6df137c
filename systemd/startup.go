package systemd

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"teleport-update/internal/executable"
)

// Startup lists what a start of a unit depends on beside the settings of its process. Those show in a canary alone: see package canary.
type Startup struct {
	Groups      []string // groups of its processes, as a unit file has them; without Group= if systemd makes a user for each run
	EndsService []string // limits under which a service like the agent's does not stay up, whatever its version

	// Before are the commands that systemd runs first and whose failure ends the start, as a unit file has them.
	Before []string
	// Privileged says that such a command runs with full privileges, outside of the unit's view of files.
	Privileged bool
	// A path that is missing now may exist at the start: systemd makes folders for the unit's processes (made), and starts
	// other units first, along with the unit: mounts, and services, which may make any file.
	Services     []string
	made, mounts []string
	programs     []program // of commands whose failure ends the start
	folders      []ownFolder
}

// leastAddressSpace is the space that an agent's program and its runtime reserve. A service that is ended within
// leastRuntime, and started again, looks like one that crashes.
const (
	leastAddressSpace = 2 << 30
	leastRuntime      = 10 * time.Minute
)

func parseStartup(p properties) Startup {
	s := Startup{made: madeFor(p), Before: commandsBefore(p), Privileged: hasPrivileged(p), folders: parseOwnFolders(p)}
	s.mounts, s.Services = startedBefore(p)
	s.programs = parsePrograms(p, s.made)
	if group := property[string](p, "Group"); group != "" && !property[bool](p, "DynamicUser") {
		s.Groups = append(s.Groups, "Group="+group)
	}
	for _, group := range property[[]string](p, "SupplementaryGroups") {
		s.Groups = append(s.Groups, "SupplementaryGroups="+group)
	}
	if value, there := p["LimitAS"].Value().(uint64); there && value < leastAddressSpace {
		s.EndsService = append(s.EndsService, "LimitAS="+strconv.FormatUint(value, 10))
	}
	if usec, there := p["RuntimeMaxUSec"].Value().(uint64); there && limit(usec) < leastRuntime {
		s.EndsService = append(s.EndsService, "RuntimeMaxSec="+limit(usec).String())
	}
	return s
}

// EndingLimit names a limit of a unit that ends an agent of any version; empty if there is no limit.
func (u Unit) EndingLimit() string {
	limits := u.Ties.Startup.EndsService
	if len(limits) == 0 {
		return ""
	}
	return fmt.Sprintf("its unit has %s, which ends an agent of any version: `systemctl cat %s` shows where that is set", limits[0], u.Name)
}

// beforeStart are the settings with commands that systemd runs before the commands of ExecStart=.
var beforeStart = []string{"ExecCondition", "ExecStartPre"}

// commandsBefore are the commands of ExecCondition= and ExecStartPre= whose failure counts.
func commandsBefore(p properties) (all []string) {
	for _, name := range beforeStart {
		for _, fields := range property[[][]any](p, name) {
			if len(fields) > 2 && fields[2] == false {
				words, _ := fields[1].([]string)
				all = append(all, name+"="+strings.Join(words, " "))
			}
		}
	}
	return all
}

// madeFor returns the folders that systemd makes for the unit, and the paths over which it mounts something.
func madeFor(p properties) []string {
	all := foldersFor(p)
	for _, fields := range property[[][]any](p, "TemporaryFileSystem") {
		all = append(all, text(fields, 0))
	}
	for _, name := range []string{"BindPaths", "BindReadOnlyPaths"} {
		for _, fields := range property[[][]any](p, name) {
			all = append(all, text(fields, 1))
		}
	}
	if rootOf(p) != "" {
		all = append(all, "/")
	}
	return all
}

// foldersFor are the folders that systemd makes for the unit.
func foldersFor(p properties) (all []string) {
	all = givenTo(p)
	for _, folder := range property[[]string](p, "ConfigurationDirectory") {
		all = append(all, filepath.Join("/etc", folder))
	}
	return all
}

// givenTo are the folders that systemd makes for the unit and gives to its user.
func givenTo(p properties) (all []string) {
	for name, above := range ownFolders {
		for _, folder := range property[[]string](p, name) {
			all = append(all, filepath.Join(above, folder))
		}
	}
	return all
}

// startedBefore are the mounts and the services that systemd starts before a unit, along with it.
func startedBefore(p properties) (mounts, services []string) {
	after := property[[]string](p, "After")
	for _, kind := range []string{"Requires", "BindsTo", "Wants"} {
		for _, unit := range property[[]string](p, kind) {
			switch {
			case !slices.Contains(after, unit):
			case strings.HasSuffix(unit, ".mount"):
				mounts = append(mounts, unit)
			case strings.HasSuffix(unit, ".service"):
				services = append(services, unit)
			}
		}
	}
	return mounts, services
}

// Obstacle returns a setting that ends the start before the unit's program, and that a canary does not have: a folder that systemd
// cannot make, or a command around the program that cannot be executed. It is empty if none shows.
func (s Startup) Obstacle() string {
	return cmp.Or(blockedFolder(s.folders, s.isToBeMounted), s.brokenProgram())
}

// brings reports whether units that systemd starts first may bring a file or folder that is missing.
func (s Startup) brings(path string) bool {
	if s.mountFor(path) != "" {
		return s.isToBeMounted(path)
	}
	return len(s.Services) > 0
}

// mountFor returns the folder at or above a path on which systemd mounts something first; otherwise empty.
func (s Startup) mountFor(path string) string {
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if slices.Contains(s.mounts, escapePath(dir)+".mount") {
			return dir
		}
	}
	return ""
}

// isToBeMounted reports whether systemd mounts a file system over a path first and it is not mounted now.
func (s Startup) isToBeMounted(path string) bool {
	dir := s.mountFor(path)
	if dir == "" {
		return false
	}
	mounted, err := isMountPoint(dir)
	return err != nil || !mounted
}

// related reports whether the two paths are the same, or one is above the other.
func related(a, b string) bool {
	a, b = filepath.Clean(a)+"/", filepath.Clean(b)+"/"
	return a == "//" || b == "//" || strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// program is the program of a command of a unit.
type program struct{ path, setting string }

// parsePrograms returns the programs of the commands that systemd runs around the command of ExecStart=, without those whose
// failure it ignores. If a command before the start has full privileges, it may make the programs of later commands, which are left
// out.
func parsePrograms(p properties, made []string) (all []program) {
	names := beforeStart
	if !hasPrivileged(p) {
		names = append(slices.Clone(names), "ExecStartPost")
	}
	for _, name := range names {
		for _, fields := range property[[][]any](p, name) {
			path := text(fields, 0)
			brought := slices.ContainsFunc(made, func(m string) bool { return related(m, path) })
			if len(fields) > 2 && fields[2] == false && filepath.IsAbs(path) && !brought {
				all = append(all, program{path, name + "=" + path})
			}
		}
	}
	return all
}

// hasPrivileged reports whether a command before the start has full privileges.
func hasPrivileged(p properties) bool {
	return slices.ContainsFunc(beforeStart, func(name string) bool {
		return slices.ContainsFunc(property[[][]any](p, name+"Ex"), func(fields []any) bool {
			if len(fields) < 3 {
				return false
			}
			flags, _ := fields[2].([]string)
			return slices.Contains(flags, "privileged")
		})
	})
}

// brokenProgram returns the setting of a command whose program cannot be executed, and that no other unit brings; empty if none
// shows. A program or an interpreter that exists only in the unit's own view of files is left out.
func (s Startup) brokenProgram() string {
	if len(s.programs) == 0 {
		return ""
	}
	setting, _ := within(func() (string, error) {
		for _, program := range s.programs {
			interpreter := executable.Interpreter(program.path)
			made := slices.ContainsFunc(s.made, func(m string) bool { return interpreter != "" && related(m, interpreter) })
			why, err := executable.Why(program.path)
			if err == nil && why != nil && !made && !s.brings(program.path) {
				return program.setting, nil
			}
		}
		return "", nil
	})
	return setting
}

// NextStart returns the command and the variables of the next start of a unit, as systemd has loaded the unit. Like systemd,
// it reads environment files anew. own are the variables, NAME=VALUE, that systemd gives the unit's processes beside the
// unit's own, such as HOME.
func (u Unit) NextStart(own []string) (ServiceCommand, error) {
	c := ServiceCommand{Environment: map[string]string{}, Found: true}
	for _, all := range [][]string{own, u.Environment} {
		for _, variable := range all {
			if name, value, ok := strings.Cut(variable, "="); ok {
				c.Environment[name] = value
			}
		}
	}
	for _, file := range u.EnvironmentFiles {
		if err := c.readFiles(file); err != nil {
			return c, err
		}
	}
	for _, variable := range u.UnsetEnvironment {
		c.unset(variable)
	}
	for _, word := range u.Command {
		c.add(word, u.Literal)
	}
	return c, nil
}

// environmentFiles returns the files of EnvironmentFile=, with a dash before each file that may be missing.
func environmentFiles(p properties) (all []string) {
	for _, fields := range property[[][]any](p, "EnvironmentFiles") {
		file := text(fields, 0)
		if len(fields) > 1 && fields[1] == true {
			file = "-" + file
		}
		all = append(all, file)
	}
	return all
}

// ResultDependency is the result of a job that ended because a unit that its unit needs did not start.
const ResultDependency = "dependency"

// ResultFrozen is the result of a job that systemd (257) does not begin because the unit or its slice is frozen.
const ResultFrozen = "frozen"

// IsRefused reports whether an error means that systemd refused a job before it began: by a policy, because of a unit file, of the
// unit or of one that it needs, or because the unit is frozen. It says nothing about the unit's program, and nothing was changed.
func IsRefused(err error) bool {
	if IsDenied(err) {
		return true
	}
	job, ok := errors.AsType[*JobError](err)
	if !ok {
		return false
	}
	if job.Result == ResultFrozen {
		return true
	}
	e, ok := errors.AsType[dbus.Error](job.Err)
	return ok && strings.HasPrefix(e.Name, "org.freedesktop.systemd1.")
}

// IsPrevented reports whether an error says something about other units or the host, and nothing about the unit's
// program: systemd refused the job, did not begin it, or ended it because a unit that is needed did not start.
func IsPrevented(err error) bool {
	job, ok := errors.AsType[*JobError](err)
	return IsRefused(err) || ok && (job.Result == ResultWaiting || job.Result == ResultDependency)
}
