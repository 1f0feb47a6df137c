package systemd

import (
	"path/filepath"
	"slices"
	"strings"
)

// Ties are what systemd will and will not do with a unit when somebody asks it to, and which
// other units that depends on. All of it shows before anything is asked.
type Ties struct {
	RefusesStart bool // RefuseManualStart=, or a kind of unit that cannot be started
	RefusesStop  bool // RefuseManualStop=

	EndsHost string // the setting by which systemd ends the host once the unit is down, as "SuccessAction=reboot"; or empty

	KillMode string // which processes a stop ends: "control-group", "mixed", "process", "none"
	Lenient  bool   // SendSIGKILL=no: a process that ignores the stop outlives it

	// Runtime are folders in /run that systemd removes when the unit stops.
	Runtime []string
	// Commands: it runs others than the agent, at each start or stop: ExecStartPre=, ExecStop=, ExecStopPost=.
	Commands bool

	Conditions []Condition // of both kinds, Condition…= and Assert…=

	View    View // of the file system, that its processes have
	Startup Startup
	Rights  Rights // over files, whatever their modes say

	Needs    []Need   // units without which systemd does not start this one
	After    []string // units that are started before this one, where both are
	Starters []string // units that start this one again whenever it is down: Upholds=, a .path
	// Dependents are the units that systemd stops with this one: by Requires=, Requisite=, BindsTo=, PartOf=,
	// StopPropagatedFrom=.
	Dependents []string

	// WantedBy are the units whose start starts this one: Wants=, Requires=, BindsTo=, Upholds=, what [Install] of a unit file makes, and
	// timers, sockets and paths that trigger it.
	WantedBy []string

	StopsUnneeded bool // StopWhenUnneeded=: it goes down with the last unit that needs it
}

func parseTies(p properties) Ties {
	t := Ties{
		RefusesStart: denied(p, "CanStart"),
		RefusesStop:  denied(p, "CanStop"),
		EndsHost:     endsHost(p),
		KillMode:     property[string](p, "KillMode"),
		Lenient:      denied(p, "SendSIGKILL"),
		Conditions:   append(parseConditions(p, "Conditions"), parseConditions(p, "Asserts")...),
		Needs:        parseNeeds(p),
		After:        property[[]string](p, "After"),
		Starters:     slices.Clone(property[[]string](p, "UpheldBy")),
		View:         parseView(p),
		Startup:      parseStartup(p),
		Rights:       parseRights(p),

		StopsUnneeded: property[bool](p, "StopWhenUnneeded"),
	}
	for _, unit := range property[[]string](p, "TriggeredBy") {
		if strings.HasSuffix(unit, ".path") {
			t.Starters = append(t.Starters, unit)
		}
	}
	for _, kind := range []string{"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"} {
		for _, unit := range property[[]string](p, kind) {
			if !slices.Contains(t.Dependents, unit) {
				t.Dependents = append(t.Dependents, unit)
			}
		}
	}
	for _, kind := range []string{"WantedBy", "RequiredBy", "BoundBy", "UpheldBy", "TriggeredBy"} {
		t.WantedBy = append(t.WantedBy, property[[]string](p, kind)...)
	}
	for _, name := range []string{"ExecStartPre", "ExecStop", "ExecStopPost"} {
		t.Commands = t.Commands || len(property[[][]any](p, name)) > 0
	}
	if property[string](p, "RuntimeDirectoryPreserve") != "yes" {
		for _, name := range property[[]string](p, "RuntimeDirectory") {
			t.Runtime = append(t.Runtime, filepath.Join("/run", name))
		}
	}
	return t
}

// LosesOnStop reports whether systemd removes a file when the unit stops, by whatever name: /var/run is a
// link to /run.
func (t Ties) LosesOnStop(path string) bool {
	if len(t.Runtime) == 0 {
		return false
	}
	names := []string{filepath.Clean(path)}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		names = append(names, filepath.Join(dir, filepath.Base(path)))
	}
	return slices.ContainsFunc(t.Runtime, func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, dir+"/") || err == nil && strings.HasPrefix(name, real+"/")
		})
	})
}

// SparesProcesses reports whether a stop may leave processes of the unit, beside its main one.
func (t Ties) SparesProcesses() bool { return t.Sparing() != "" }

// Sparing is the setting by which a stop may leave processes of the unit; empty if there is none.
func (t Ties) Sparing() string {
	switch {
	case t.KillMode == "process", t.KillMode == "none":
		return "KillMode=" + t.KillMode
	case t.Lenient:
		return "SendSIGKILL=no"
	}
	return ""
}
