package survey

import (
	"fmt"
	"slices"
	"strings"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Pending is how a running agent differs from what its unit would start now: a reload keeps the
// arguments, the variables and the user that the process was started with, so the process proves
// nothing about the unit. The zero Pending means no difference.
type Pending struct {
	Differs []string // what the next start changes, a few words each
	Loses   []string // arguments that the agent runs with, and the next start has not
}

// Is reports whether the agent differs from its unit.
func (p Pending) Is() bool { return len(p.Differs)+len(p.Loses) > 0 }

func (p Pending) String() string {
	all := slices.Clone(p.Differs)
	for _, a := range p.Loses {
		all = append(all, "the next start loses "+a)
	}
	return strings.Join(all, "; ")
}

// OwnVariable begins the names of the updater's variables: they describe it to the agent, and never
// need a restart.
const OwnVariable = "TELEPORT_UPDATE_"

// pendingOf compares a unit with a process: its user, its arguments, and the variables that the
// unit names. uid is the user's in the unit.
func pendingOf(u systemd.Unit, uid int, p procfs.Started) (pending Pending) {
	// Without its environment files, nobody can tell what the unit starts.
	if next, err := u.NextStart(p.Environment); err == nil {
		pending = argumentsPending(next.Words, p.Command)
		for _, variable := range u.Environment {
			name, _, _ := strings.Cut(variable, "=")
			if !strings.HasPrefix(name, OwnVariable) && changes(name, next.Environment, p.Environment) {
				pending.Differs = append(pending.Differs, "the next start changes the variable "+name)
			}
		}
	}
	if uid != p.UID {
		pending.Differs = append(pending.Differs, fmt.Sprintf("the agent runs as user %d, and is started as %d", p.UID, uid))
	}
	return pending
}

// argumentsPending compares the words of two commands, of the next start and of the process that runs.
func argumentsPending(next, running []string) (pending Pending) {
	runs, starts := systemd.Arguments(running), systemd.Arguments(next)
	lost, changed := systemd.Missing(runs, starts)
	pending.Loses = systemd.Texts(lost)
	for _, a := range changed {
		pending.Differs = append(pending.Differs, "the next start has another value of "+strings.Join(a.Words, " "))
	}
	gained, _ := systemd.Missing(starts, runs)
	for _, text := range systemd.Texts(gained) {
		pending.Differs = append(pending.Differs, "the next start adds "+text)
	}
	return pending
}

// changes reports whether a process has another value of a variable than its next start, or has it and the next start does not.
func changes(name string, next map[string]string, running []string) bool {
	if value, there := next[name]; there {
		return !slices.Contains(running, name+"="+value)
	}
	return slices.ContainsFunc(running, func(variable string) bool { return strings.HasPrefix(variable, name+"=") })
}
