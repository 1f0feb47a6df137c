package transaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Do carries an order out in this process.
func (m *Machine) Do(ctx context.Context, o Order) error {
	if o.Uninstall != nil {
		return m.uninstall(ctx, *o.Uninstall)
	}
	return m.transact(ctx, *o.Transaction)
}

// DoTransient carries an order out in a transient unit of its own where systemd
// runs, since the operator's shell may be a child of the very agent that is about
// to be stopped; in this process elsewhere.
func (m *Machine) DoTransient(ctx context.Context, o Order, description string) error {
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	o.Writer = m.Host.Program
	if err := o.Stamp(o); err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	stdin, err := pipeOf(data)
	if err != nil {
		return err
	}
	defer stdin.Close()
	if ran, err := m.runTransient(ctx, agent, description, stdin, "switch"); ran || err != nil {
		return err
	}
	return m.Do(ctx, o)
}

// pipeOf returns the reading end of a pipe that holds data. An order fits into the
// pipe's buffer by far.
func pipeOf(data []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if len(data) > 32<<10 {
		return nil, fmt.Errorf("the request is %d bytes long", len(data))
	}
	if _, err := w.Write(data); err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	return r, w.Close()
}
