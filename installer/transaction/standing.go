package transaction

import (
	"context"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// Standing says what would refuse any change of the version, as systemd has the agent's unit and as the host is now; nil if
// nothing would. What depends on the version is asked with that. err: it cannot be told.
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
