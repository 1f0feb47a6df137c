package transaction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
)

// Units that depend on the agent go down when it is stopped, and so do those that depend on them. A
// start brings back the agent alone.

// dependentsPatience is how long units that went down with the agent may take to start, all of them
// together. systemd goes on with a start that takes longer.
const dependentsPatience = 2 * time.Minute

// asker knows other units than the agent's.
type asker interface {
	Unit(ctx context.Context, name string) (systemd.Unit, error)
}

// goesDown returns the units that are up and that a stop of the agent takes down, the nearer ones first.
// systemd passes a stop on even through a unit that is down already.
func goesDown(ctx context.Context, by asker, agent systemd.Ties) (up []string, err error) {
	all := slices.Clone(agent.Dependents)
	for n := 0; n < len(all); n++ {
		u, err := by.Unit(ctx, all[n])
		if err != nil {
			return nil, err
		}
		for _, name := range u.Ties.Dependents {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		// A run of the updater, or of a program that calls it, would wait for this transaction.
		runsOnce := u.Type == "oneshot" && u.ActiveState == "activating"
		if isUp(u) && !systemd.IsOwn(all[n]) && !runsOnce {
			up = append(up, all[n])
		}
	}
	return up, nil
}

// isUp reports whether a stop would change a unit.
func isUp(u systemd.Unit) bool {
	return slices.Contains([]string{"active", "reloading", "refreshing", "activating"}, u.ActiveState)
}

// down returns which of some units are down.
func down(ctx context.Context, by asker, units []string) (down []string, err error) {
	for _, name := range units {
		u, err := by.Unit(ctx, name)
		if err != nil {
			return nil, err
		}
		if !isUp(u) {
			down = append(down, name)
		}
	}
	return down, nil
}

// startDependents starts the units that were active when the transaction began, or since, and went down with
// the agent. A unit that does not start is logged, and stops nothing else. After a boot systemd has started
// the enabled units. Units that systemd cannot be asked about stay noted: the next run starts them.
func (t *transaction) startDependents(ctx context.Context) {
	if t.bootedSince(ctx) {
		t.m.warn(forgetWentDown(t.m), againStarted)
		return
	}
	since, err := wentDown(ctx, t.m, t.agent)
	t.m.warn(err, mayBeDown)
	t.m.warn(startUnits(ctx, t.m, t.agent, union(t.j.Agent.Dependents, since)), mayBeDown)
}

const (
	mayBeDown    = "units that depend on the agent may be down"
	againStarted = "units that somebody stops may be started again"
)

// startWentDown is startDependents for a transaction that has left only its note.
func startWentDown(ctx context.Context, m *Machine, agent Agent) error {
	units, err := wentDown(ctx, m, agent)
	if err != nil {
		m.warn(err, mayBeDown)
		return nil
	}
	if err := startUnits(ctx, m, agent, units); err != nil {
		return failure.Unchanged("start the units that went down with the agent: %w", err).
			To("see `systemctl status %s`; each run tries again", strings.Join(units, " "))
	}
	return nil
}

// startUnits starts units that went down with the agent, if the agent runs. A unit's start may start the agent, unproven and unwatched.
// So units stay down if somebody stopped the agent. They wait if the agent fails, or is down by a stop of ours: a run that finds the
// agent running starts them.
func startUnits(ctx context.Context, m *Machine, agent Agent, units []string) error {
	if len(units) == 0 {
		m.warn(forgetWentDown(m), againStarted)
		return nil
	}
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	if sight.Running() {
		if units, err = startDown(ctx, m, agent, units); err != nil {
			return err
		}
		if sight, err = agent.Look(ctx); err != nil { // it may have died meanwhile, and units with it
			return err
		}
	}
	switch {
	case sight.Running(), len(units) == 0:
	case sight.State == state.AgentStopped && !isStopOfOurs(m, sight):
		m.Host.Log.Info("units that went down with the agent stay down, for somebody stopped the agent", "units", strings.Join(units, ", "))
	default:
		return leaveDown(ctx, m, agent, units)
	}
	m.warn(forgetWentDown(m), againStarted)
	return nil
}

// leaveDown leaves units that are down to the run that finds the agent running. Units that are up need no later start.
func leaveDown(ctx context.Context, m *Machine, agent Agent, units []string) error {
	gone, err := down(ctx, agent, units)
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		return forgetWentDown(m)
	}
	writeWentDown(ctx, m, agent, gone)
	m.Host.Log.Warn("units that went down with the agent are started once the agent runs", "units", strings.Join(gone, ", "))
	return nil
}

// startDown starts the units that are down, and returns the units that do not start, which it logs. An error means that systemd could
// not be asked. systemd has the jobs of all units before one is waited for: a slow unit keeps no other one down.
func startDown(ctx context.Context, m *Machine, agent Agent, units []string) (still []string, err error) {
	gone, err := down(ctx, agent, units)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, dependentsPatience)
	defer cancel()
	ended := map[string]error{}
	var waits []func()
	for _, unit := range gone {
		m.Host.Log.Info("starting a unit that went down with the agent", "unit", unit)
		wait, err := agent.QueueOther(within, unit)
		if err != nil {
			ended[unit] = err
			continue
		}
		waits = append(waits, func() { ended[unit] = wait(within) })
	}
	for _, wait := range waits {
		wait()
	}
	// Once the time is over, a wait may end with that although its unit is up.
	if still, err = down(ctx, agent, gone); err != nil {
		return nil, err
	}
	for _, unit := range still {
		m.warn(ended[unit], "a unit that went down with the agent did not start again", "unit", unit)
	}
	return still, nil
}

// describeDown adds to the last outcome which dependents are down.
func (t *transaction) describeDown(ctx context.Context, last *state.LastUpdate) {
	if last == nil || t.bootedSince(ctx) {
		return
	}
	gone, err := down(ctx, t.agent, t.j.Agent.Dependents)
	if err == nil && len(gone) > 0 {
		last.Error = strings.TrimPrefix(fmt.Sprintf("%s; %s went down with the agent and did not start again", last.Error,
			strings.Join(gone, ", ")), "; ")
	}
}

// dependentsUp returns the units of the journal's list that are up: after a boot, systemd has started the enabled ones,
// and a unit that a person had started by hand is not for us to start. It is the whole list if systemd cannot be asked.
func (t *transaction) dependentsUp(ctx context.Context) []string {
	units := t.j.Agent.Dependents
	gone, err := down(ctx, t.agent, units)
	if err != nil {
		return units
	}
	return slices.DeleteFunc(slices.Clone(units), func(unit string) bool { return slices.Contains(gone, unit) })
}

// The units that go down with the agent are noted when a transaction begins, and with each stop: a version that dies takes
// some of them down before anybody stops it, and the second stop of a transaction finds them down.

// wentDown returns the units that a transaction of this boot took down with the agent, and that nobody has started again
// for it. After a boot systemd has started the enabled units.
func wentDown(ctx context.Context, m *Machine, agent looker) ([]string, error) {
	path := m.Host.Paths.WentDown()
	if path == "" || host.Absent(path) {
		return nil, nil
	}
	text, err := regular.Read(path, 64<<10, regular.NoLink|regular.Sealed)
	if err != nil {
		return nil, err
	}
	boot, units, _ := strings.Cut(string(text), "\n")
	if !sameBoot(boot, m.thisBoot(ctx, agent)) {
		return nil, nil
	}
	return strings.Fields(units), nil
}

// addWentDown adds units to those that went down, and keeps all that are noted.
func addWentDown(ctx context.Context, m *Machine, agent looker, units []string) {
	if len(units) == 0 {
		return
	}
	known, _ := wentDown(ctx, m, agent) // an unreadable note is written anew
	writeWentDown(ctx, m, agent, union(known, units))
}

// writeWentDown writes a note of these units and no others.
func writeWentDown(ctx context.Context, m *Machine, agent looker, units []string) {
	path := m.Host.Paths.WentDown()
	if path == "" {
		return
	}
	lines := append([]string{m.thisBoot(ctx, agent)}, units...)
	m.warn(state.WriteForRoot(path, []byte(strings.Join(lines, "\n")+"\n")),
		"units that depend on the agent may stay down if the journal is lost", "units", strings.Join(units, ", "))
}

// forgetWentDown removes the note of the units, once they were started or are to stay down.
func forgetWentDown(m *Machine) error { return forgetStop(m.Host.Paths.WentDown()) }

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// forgetStop removes the note of a stop that is not needed any more.
func forgetStop(note string) error {
	if note == "" || host.Absent(note) {
		return nil
	}
	return durable.Remove(note)
}
