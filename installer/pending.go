package installer

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Pending is how a running agent differs from what its unit would start now: a reload
// keeps the arguments, the variables and the user that the process was started with, so
// that what runs proves nothing about the unit. The zero Pending: in nothing.
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

// ownVariable begins the names of variables that are the updater's: they tell the agent
// of it, and never need a restart.
const ownVariable = "TELEPORT_UPDATE_"

// pendingOf compares a unit with a process: its user, its arguments, and the variables
// that the unit names. uid is that of the unit's user.
func pendingOf(u systemd.Unit, uid int, p procfs.Started) (pending Pending) {
	runs, starts := systemd.Arguments(p.Command), systemd.Arguments(u.Command)
	lost, changed := systemd.Missing(runs, starts)
	pending.Loses = systemd.Texts(lost)
	for _, a := range changed {
		pending.Differs = append(pending.Differs, "the next start has another value of "+strings.Join(a.Words, " "))
	}
	gained, _ := systemd.Missing(starts, runs)
	for _, text := range systemd.Texts(gained) {
		pending.Differs = append(pending.Differs, "the next start adds "+text)
	}
	for _, variable := range u.Environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, ownVariable) && !slices.Contains(p.Environment, variable) {
			pending.Differs = append(pending.Differs, "the next start changes the variable "+name)
		}
	}
	if uid != p.UID {
		pending.Differs = append(pending.Differs, fmt.Sprintf("the agent runs as user %d, and is started as %d", p.UID, uid))
	}
	return pending
}

// pendingIn is about the agent that serves. What cannot be told is not pending.
func (i *Installer) pendingIn(sight transaction.Sight) Pending {
	if sight.State != state.AgentRunning || len(sight.Command) == 0 {
		return Pending{}
	}
	started, ok := i.Processes.Started(cmp.Or(sight.Serving.PID, sight.Main.PID))
	if !ok {
		return Pending{}
	}
	uid, err := strconv.Atoi(cmp.Or(sight.User, "0"))
	if err != nil {
		account, err := user.Lookup(sight.User)
		if err != nil {
			return Pending{}
		}
		uid, _ = strconv.Atoi(account.Uid)
	}
	return pendingOf(sight.Unit, uid, started)
}

func (p Pending) explained() string {
	return "the agent runs with other settings than its unit has: " + p.String() + ". `teleport-update update --restart` restarts it"
}

// restartAgent restarts an agent that differs from its unit, and watches it. The caller
// holds no lock.
func (i *Installer) restartAgent(ctx context.Context) error {
	c, unlock, err := i.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sight, err := i.look(ctx)
	if err != nil {
		return err
	}
	p := i.pendingIn(sight)
	if !p.Is() {
		i.Log.Info("the agent runs with what its unit says; it is not restarted")
		return nil
	}
	i.Log.Info("restarting the agent, as was asked for", "because", p.String())
	return i.RestartActive(ctx, c)
}
