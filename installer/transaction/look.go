package transaction

import (
	"context"
	"errors"
	"time"

	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// forkTakes is how long a look waits for systemd to execute the program of the unit in the process that it has forked for
// that: it sets up its name space and its files first.
const forkTakes = 2 * time.Second

// Look waits for a moment if the agent is just being started, for until then nobody can tell which version it is.
func (a *realAgent) Look(ctx context.Context) (Sight, error) {
	return lookExecuted(ctx, forkTakes, a.look)
}

// lookExecuted looks until the main process executes its program, but no longer than patience.
func lookExecuted(ctx context.Context, patience time.Duration, look func(context.Context) (Sight, error)) (Sight, error) {
	const again = 20 * time.Millisecond
	s, err := look(ctx)
	for end := time.Now().Add(patience); err == nil && s.Forked && time.Now().Before(end); s, err = look(ctx) {
		select {
		case <-ctx.Done():
			return s, nil
		case <-time.After(again):
		}
	}
	return s, err
}

func (a *realAgent) look(ctx context.Context) (Sight, error) {
	u, err := a.Conn.Unit(ctx, a.unit)
	if err != nil {
		return Sight{}, err
	}
	s := Sight{Unit: u, State: StateOf(u)}
	if p := procfs.Host().Process(int(u.MainPID)); p != nil {
		if s.Forked = procfs.Host().Forked(*p); !s.Forked {
			s.Main = *p
		}
	}
	if p := procfs.Host().Process(procfs.PIDFile(u.PIDFile)); p != nil {
		s.Serving = *p
	}
	for _, p := range procfs.Host().Group(u.ControlGroup) {
		s.Group = append(s.Group, p.PID)
	}
	if u.JobPending {
		verb, err := a.JobVerb(ctx, u.Job)
		if errors.Is(err, systemd.ErrBroken) {
			return Sight{}, err
		}
		s.StopPending = verb == systemd.VerbStop
	}
	return s, nil
}

// begins reports whether the agent is about to execute a program that nobody knows before: what its links lead to at that
// moment. It is being set up, its unit runs other commands first (ExecStartPre=), or it is started again after a pause.
func (s Sight) begins() bool { return s.Forked || s.ActiveState == "activating" && s.Main.PID == 0 }
