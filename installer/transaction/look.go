package transaction

import (
	"context"
	"errors"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// forkTakes is how long a look waits for systemd to execute the program of the unit in the process that it has forked: it
// sets up name space and files of that process first.
const forkTakes = 2 * time.Second

// Look waits for a moment if the agent is just being started: nobody can tell its version before it executes its program.
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

// begins reports whether the agent is about to execute a program that nobody knows before: the one that its links lead to at
// that moment. It is being set up, its unit runs other commands first (ExecStartPre=), or it is started again after a pause.
func (s Sight) begins() bool { return s.Forked || s.ActiveState == "activating" && s.Main.PID == 0 }

// Standing returns what would refuse any change of the version, as systemd has the agent's unit and as the host is now; nil
// if nothing would. Checks that depend on a version are asked with that version. An err means that the answer is not known.
func Standing(ctx context.Context, m *Machine, c state.Config) (why, err error) {
	p, err := m.Preflight(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.config, p.req, p.stage = c, Request{Kind: Update, From: c.Active()}, Change|Now
	// Without a database, or with one that goes with the stop, a change exchanges none.
	if path, err := m.Host.Database(); err == nil && !losesData(p.Sight, path) && m.probe(ctx, path) == nil {
		if p.t.db, err = backup.Open(path); err == nil {
			p.Database = state.Database{Plan: state.BackupDatabase, Path: path}
		}
	}
	for _, check := range p.checks {
		if !check.standing || check.needs&^p.holds() != 0 {
			continue
		}
		err := check.check(p, ctx)
		refused := failure.Is[*failure.RefusedError](err)
		switch {
		case err != nil && check.sentence != "":
			return check.words(p, err), nil
		case err != nil && refused:
			return err, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}
