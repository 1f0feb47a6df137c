package systemd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Need is a unit without which systemd does not start another one.
type Need struct {
	Setting string // "Requires", "BindsTo" or "Requisite"
	Unit    string
}

// needing are the settings that make a need. For the first two, systemd also starts the needed unit along with the unit.
var needing = []string{"Requires", "BindsTo", requisite}

const requisite = "Requisite"

func parseNeeds(p properties) (all []Need) {
	for _, setting := range needing {
		for _, unit := range property[[]string](p, setting) {
			all = append(all, Need{setting, unit})
		}
	}
	return all
}

// Lack is a unit that keeps systemd from starting another one, as it is now.
type Lack struct {
	Of    string // the unit that has the need
	Need  Need
	State string // "masked", "not-found", "bad-setting", "error"; of Requisite= also "inactive", "failed", …
}

// String completes the sentence "the unit would not start, for …".
func (l *Lack) String() string {
	return fmt.Sprintf("%s, which %s needs (%s=), is %s", l.Need.Unit, l.Of, l.Need.Setting, l.State)
}

// Fix says how to repair it.
func (l *Lack) Fix() string {
	switch l.State {
	case "masked":
		return fmt.Sprintf("`%s`, or remove the setting (`systemctl cat %s` shows it)", Unmask(l.Need.Unit), l.Of)
	case "not-found":
		return fmt.Sprintf("bring the unit back, or remove the setting (`systemctl cat %s` shows it)", l.Of)
	case failed:
		if l.Need.Setting != requisite {
			return fmt.Sprintf("`systemctl status %s` says why, or remove the setting (`systemctl cat %s` shows it)", l.Need.Unit, l.Of)
		}
	case "bad-setting", "error":
		return fmt.Sprintf("`systemctl status %s` says what is wrong with it", l.Need.Unit)
	}
	return fmt.Sprintf("`systemctl start %s`", l.Need.Unit)
}

const failed = "failed" // a state of units

// FailedNeed returns a unit that u needs and that failed: a start of u since that failure did not happen, and the next one may not.
// It is nil if none failed. It asks for one unit after the other.
func FailedNeed(ctx context.Context, u Unit, ask func(ctx context.Context, unit string) (Unit, error)) (*Lack, error) {
	for _, need := range u.Ties.Needs[:min(len(u.Ties.Needs), mostNeeds)] {
		needed, err := ask(ctx, need.Unit)
		if err != nil {
			return nil, err
		}
		if needed.ActiveState == failed {
			return &Lack{u.Name, need, failed}, nil
		}
	}
	return nil, nil
}

// mostNeeds bounds how many units LackOf asks for. An ordinary service needs five, with all that those need.
const mostNeeds = 100

// unloadable are the states of units for which systemd refuses the start of each unit that needs them, even if they
// are active.
var unloadable = []string{"masked", "not-found", "bad-setting", "error"}

// LackOf returns a unit that keeps systemd from starting u, among the units that u needs and their own needs; nil if none
// shows. It asks for one unit after the other. A unit that is down and that systemd would start along with u does not
// count: only a try shows whether it starts.
func LackOf(ctx context.Context, u Unit, ask func(ctx context.Context, unit string) (Unit, error)) (*Lack, error) {
	asked := map[string]bool{u.Name: true}
	for units := []Unit{u}; len(units) > 0; units = units[1:] {
		of := units[0]
		for _, need := range of.Ties.Needs {
			if asked[need.Unit] || len(asked) > mostNeeds {
				continue
			}
			asked[need.Unit] = true
			needed, err := ask(ctx, need.Unit)
			if err != nil {
				return nil, err
			}
			if state := missing(u, of, need, needed); state != "" {
				return &Lack{of.Name, need, state}, nil
			}
			units = append(units, needed)
		}
	}
	return nil, nil
}

// missing returns the state of a needed unit in which systemd would not start u; empty if it would. Whether Requisite= prevents a
// start without an order between the two (After=) is by chance. The needs of a needed unit count only if they cannot be loaded:
// that unit may be up.
func missing(u, of Unit, need Need, needed Unit) string {
	down := slices.Contains([]string{"inactive", "failed", "deactivating"}, needed.ActiveState)
	switch {
	case slices.Contains(unloadable, needed.LoadState):
		return needed.LoadState
	case need.Setting == requisite && down && of.Name == u.Name:
		return needed.ActiveState
	}
	return ""
}

// Ties are systemd's reactions to requests for a unit, and the other units on which those depend.
// All of it shows before anything is requested.
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

	View    View // of its processes on the file system
	Startup Startup
	Rights  Rights // over files, whatever their modes say

	Needs    []Need   // units without which systemd does not start this one
	After    []string // units that are started before this one, if both are
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

// LosesOnStop reports whether systemd removes a file when the unit stops. The path may have another name:
// /var/run is a link to /run.
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

// Sparing returns the setting by which a stop may leave processes of the unit; otherwise empty.
func (t Ties) Sparing() string {
	switch {
	case t.KillMode == "process", t.KillMode == "none":
		return "KillMode=" + t.KillMode
	case t.Lenient:
		return "SendSIGKILL=no"
	}
	return ""
}
