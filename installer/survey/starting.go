package survey

import (
	"context"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/systemd"
)

// Step is the work of systemd on an agent that counts as running, by its unit, and does not serve.
type Step string

const (
	// Serving stands for every other agent, too: the State of one that is stopped or fails shows that.
	Serving  Step = ""
	Exited   Step = "exited"   // its process has ended, and its unit stays active (RemainAfterExit=)
	Queued   Step = "queued"   // systemd has not begun the job that starts it
	Starting Step = "starting" // earlier commands of its unit have not ended
	Stopping Step = "stopping"
	Frozen   Step = "frozen" // somebody froze its unit (`systemctl freeze`)
	Halted   Step = "halted" // its process was stopped by a signal
)

// Step returns the step of the agent when it was looked at.
func (a Agent) Step() Step {
	process := a.Process.PID != 0 || a.MainPID != 0
	switch {
	case a.State != state.AgentRunning:
	case a.ActiveState == "deactivating":
		return Stopping
	case a.Frozen:
		return Frozen
	case a.Process.Halted:
		return Halted
	case process:
	case a.ActiveState == "activating":
		return Starting
	case a.ActiveState == "inactive":
		return Queued
	case a.ActiveState == "active" && a.SubState == "exited":
		return Exited
	}
	return Serving
}

// Serves reports whether the agent runs, and not only by its unit.
func (a Agent) Serves() bool { return a.State == state.AgentRunning && a.Step() == Serving }

// Ends reports whether a step ends by itself, sooner or later.
func (s Step) Ends() bool { return s == Queued || s == Starting || s == Stopping }

// Delay says how long a step has lasted that has not ended.
type Delay struct {
	For time.Duration
	// By are the units that a job of the agent's waits for.
	By []string
}

// Delay returns the delay of the agent's step. It asks systemd once or twice more, so it is for an agent
// that does not serve.
func (s *Survey) Delay(ctx context.Context) (Delay, error) {
	return s.delay.get(func() (Delay, error) {
		a, err := s.Agent(ctx)
		if err != nil {
			return Delay{}, err
		}
		up, err := s.unit(ctx, systemd.StartOfUnits)
		if err != nil {
			return Delay{}, err
		}
		d := Delay{For: a.InState}
		if up.ActiveState == "active" { // a unit that never changed has been as it is since then
			d.For = min(d.For, up.InState)
		}
		if a.Step() == Queued {
			d.By, err = s.blockers(ctx, a.Sight)
		}
		return d, err
	})
}

func (s *Survey) blockers(ctx context.Context, sight transaction.Sight) ([]string, error) {
	m, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	return m.Blockers(ctx, sight)
}
