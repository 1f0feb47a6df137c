package systemd

import (
	"math"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Rights are the settings of a unit by which a file may be open to its processes although its mode closes it to their user.
type Rights struct {
	Over  string   // the setting, as in a unit file, by which modes bind none of them, or may not bind them; empty: none
	Given []string // folders that systemd gives to the user before each start, with what is in them
}

// passingModes are the capabilities with which modes keep no process from reading.
const passingModes = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

func parseRights(p properties) (r Rights) {
	switch {
	case property[uint64](p, "AmbientCapabilities")&passingModes != 0:
		r.Over = "AmbientCapabilities="
	case property[string](p, "PAMName") != "": // which may add groups
		r.Over = "PAMName=" + property[string](p, "PAMName")
	}
	r.Given = givenTo(p)
	return r
}

// HasRoot reports whether a unit's processes are root's.
func (u Unit) HasRoot() bool { return u.User == "" || u.User == "root" || u.User == "0" }

// Forbids reports whether a file that its mode closes to the unit's user is closed to the unit's next process, too: no
// setting opens it, or may open it before the start. owned says that the file belongs to that user. The path has no links in it.
func (u Unit) Forbids(path string, owned bool) bool {
	if u.HasRoot() || u.DynamicUser || u.Ties.Rights.Over != "" {
		return false
	}
	if u.Ties.View.Root != "" || u.Ties.View.Denies(path, Seeing) != "" || u.Ties.Startup.isToBeMounted(path) {
		return false // the process has another file there
	}
	given := func(dir string) bool { return isBelow(path, dir) || isBelow(path, withoutLinks(dir)) }
	if slices.ContainsFunc(u.Ties.Rights.Given, given) {
		return false
	}
	byRoot, byUser := u.comesFirst()
	return !byRoot && !(byUser && owned)
}

func isBelow(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// withoutLinks resolves the links of a path, or returns the path itself if it cannot.
func withoutLinks(path string) string {
	real, err := within(func() (string, error) { return filepath.EvalSymlinks(path) })
	if err != nil {
		return path
	}
	return real
}

// comesFirst reports whether the unit has commands that may change modes: before the agent, as root or as its user, or the agent's own
// command if it runs as root. It reads the unit's files, because systemd before 243 does not report how it runs its commands.
func (u Unit) comesFirst() (byRoot, byUser bool) {
	for _, file := range append([]string{u.FragmentPath}, u.DropIns...) {
		content, err := within(func() ([]byte, error) { return readServiceFile(file) })
		if err != nil {
			continue
		}
		for name, value := range serviceSettings(string(content)) {
			command := strings.TrimLeft(value.text, commandPrefixes)
			prefixes := strings.TrimSuffix(value.text, command)
			isBefore := slices.Contains(beforeStart, name) && command != ""
			byUser = byUser || isBefore
			switch {
			case name == "PermissionsStartOnly" && isTrue(value.text): // for systemd before 240: the commands before the agent run as root
				byRoot = true
			case isBefore || name == "ExecStart":
				byRoot = byRoot || asRoot(prefixes)
			}
		}
	}
	return byRoot, byUser
}

// asRoot reports whether the prefixes of a command have it run as root in spite of User=. Two exclamation marks do so only on kernels
// older than any that this program runs on.
func asRoot(prefixes string) bool {
	return strings.Contains(prefixes, "+") || strings.Count(prefixes, "!") == 1
}

// isTrue reports whether a setting is on (systemd.syntax(7)).
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value))
}

// endings are the ways in which systemd ends a host, by the names of targets ("poweroff.target"), of services
// ("systemd-poweroff.service") and of actions ("poweroff-force"). reboots says that the host boots again by itself.
var endings = []struct {
	name    string
	reboots bool
}{{"poweroff", false}, {"halt", false}, {"exit", false}, {"reboot", true}, {"kexec", true}, {"soft-reboot", true}}

// actions are the settings that name an action for a unit that does not start. An action that reboots the host does not
// count: an administrator may want a reboot after a failure, and the recovery runs after it.
var actions = []string{"FailureAction", "StartLimitAction", "JobTimeoutAction"}

// endsHost returns the setting by which systemd may end the host during a change of the agent's version; otherwise empty.
// The updater's own stop counts as a success.
func endsHost(p properties) string {
	if action := property[string](p, "SuccessAction"); action != "" && action != "none" {
		return "SuccessAction=" + action
	}
	for _, name := range actions {
		if name == "JobTimeoutAction" && !hasJobTimeout(p) {
			continue // it has no effect
		}
		action := property[string](p, name)
		if kind, _, _ := strings.Cut(action, "-"); endsBy(kind, false) {
			return name + "=" + action
		}
	}
	for _, unit := range property[[]string](p, "OnSuccess") {
		if endsBy(endingOf(unit), true) {
			return "OnSuccess=" + unit
		}
	}
	for _, unit := range property[[]string](p, "OnFailure") {
		if endsBy(endingOf(unit), false) {
			return "OnFailure=" + unit
		}
	}
	return ""
}

// hasJobTimeout reports whether systemd ends a job of the unit after some time.
func hasJobTimeout(p properties) bool {
	return slices.ContainsFunc([]string{"JobTimeoutUSec", "JobRunningTimeoutUSec"}, func(name string) bool {
		usec, there := p[name].Value().(uint64)
		return there && usec != math.MaxUint64
	})
}

// endingOf returns the name of the ending that a unit stands for; empty if it stands for none.
func endingOf(unit string) string {
	if name, is := strings.CutSuffix(unit, ".target"); is {
		return name
	}
	name, isService := strings.CutSuffix(unit, ".service")
	name, isSystemd := strings.CutPrefix(name, "systemd-")
	if isService && isSystemd {
		return name
	}
	return ""
}

// endsBy reports whether a name is an ending of the host. Endings that reboot the host count if reboots is true.
func endsBy(name string, reboots bool) bool {
	for _, e := range endings {
		if e.name == name {
			return reboots || !e.reboots
		}
	}
	return false
}
