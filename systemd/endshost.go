package systemd

import (
	"math"
	"slices"
	"strings"
)

// endings are the ways in which systemd ends a host, by the names of targets ("poweroff.target"), of services
// ("systemd-poweroff.service") and of actions ("poweroff-force"). reboots says that the host boots again by itself.
var endings = []struct {
	name    string
	reboots bool
}{{"poweroff", false}, {"halt", false}, {"exit", false}, {"reboot", true}, {"kexec", true}, {"soft-reboot", true}}

// actions are the settings that name an action for a unit that does not start. Each ends the host only without a reboot: an
// administrator may want one after a failure, and the recovery is at hand after it.
var actions = []string{"FailureAction", "StartLimitAction", "JobTimeoutAction"}

// endsHost returns the setting by which systemd may end the host during a change of the agent's version; empty if there is none.
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

// endingOf is the name of the ending that a unit is for; empty if it is for none.
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

// endsBy reports whether a name is that of an ending. Those that reboot the host count if reboots is true.
func endsBy(name string, reboots bool) bool {
	for _, e := range endings {
		if e.name == name {
			return reboots || !e.reboots
		}
	}
	return false
}
