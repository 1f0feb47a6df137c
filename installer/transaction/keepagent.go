package transaction

import (
	"context"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// An uninstall may leave the active version as plain files. Nothing brings another version to the host after that, so the files have
// to start, on the database of today.

// checkKeeps refuses to leave the active version as plain files if it may not start again as such.
func (m *Machine) checkKeeps(ctx context.Context, c state.Config) error {
	tree, err := m.toKeep(c)
	if err == nil {
		err = m.CheckPair(ctx, c, tree, m)
	}
	if err == nil {
		err = m.checkKeepsOwn(ctx, c)
	}
	return err
}

// checkKeepsOwn refuses to leave the active version on the database of another one: copies of updates.yaml and of the links may have
// been put back since that one ran, or while it runs.
func (m *Machine) checkKeepsOwn(ctx context.Context, c state.Config) error {
	sight, err := m.Sight(ctx)
	if err != nil {
		return err
	}
	active := c.Active().Short()
	if serves, apart := servesApart(m.Host, sight, c.Active()); apart {
		return failure.Unchanged("keeping version %s as plain files is refused: the agent runs version %s, and the database may be that version's",
			active, serves.Short()).
			To("`teleport-update pin %s` takes over the version that runs, or set the cluster to it; then run the command again", serves.Version).
			Refused()
	}
	o, err := m.databaseOwner(ctx, sight, c)
	if err != nil || !o.another {
		return err
	}
	if o.unlike {
		return failure.Unchanged("keeping version %s as plain files is refused: %s", active, unlikeTables(c)).
			To("%s; then run the command again", bringsBack(m, c)).Refused()
	}
	if o.version == "" && sight.State == state.AgentUnknown {
		return nil // where systemd does not run, nobody knows more, see ownerByTables
	}
	now, err := m.Schema(ctx)
	if err != nil {
		return failure.Unchanged("see whether version %s can read the agent's database: %w", active, err).To("repair that first").Refused()
	}
	if now == "" || now == c.Status.ActiveSchema {
		return nil
	}
	return failure.Unchanged("keeping version %s as plain files is refused: %s is in its place, and may have changed the agent's database",
		active, namedVersion(o.version)).
		To("`teleport-update pin %s` takes that over, then run the command again", orVersion(o.version)).Refused()
}
