package transaction

import (
	"context"
)

// doing is what the steps need of the transaction, and no more.
func (t *transaction) doing(req checked) *doing {
	return &doing{
		j: t.j, req: req,
		agent: t.agent, health: t.agent,
		place: t.m.Host, way: t, report: t.m.Host,
		held: t,
		database: func(ctx context.Context) (changedDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		journalRemovedData: t.journalRemovedData,
		unread:             t.m.Host.AgentUnit().Unread, proxyOf: t.m.proxyOf, now: t.m.Now, log: t.m.Host.Log, unitFile: t.m.Host.Paths.Unit(),
	}
}

// undoing is what the steps back need of the transaction, and no more; boot is before the agent has been
// started.
func (t *transaction) undoing(boot bool) *undoing {
	return &undoing{
		j: t.j, boot: boot,
		agent: t.agent, units: t.agent, reloads: t,
		place: t.m.Host, trees: t.m.Host.Store, way: t, report: t.m.Host, config: t,
		held: t,
		database: func(ctx context.Context) (restoredDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		moved: func(ctx context.Context) (movedDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		journalRemovedData: t.journalRemovedData,
		refetch:            t.m.Refetch, patience: t.m.UserPatience, now: t.m.Now, log: t.m.Host.Log,
		unit: t.m.Host.Paths.AgentUnit(), original: t.m.Host.Paths.Original(),
	}
}
