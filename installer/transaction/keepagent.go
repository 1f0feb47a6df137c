package transaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/executable"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// An uninstall leaves the active version as plain files. Nothing brings another version to the host after that, so the files have to
// start, on today's database.

// checkKeeps refuses to leave the active version as plain files if it may not start again as such.
func checkKeeps(ctx context.Context, m *Machine, c state.Config, tree versions.Tree, seen Seen) error {
	err := m.CheckPair(ctx, c, tree, seen)
	if err == nil {
		err = checkKeepsOwn(ctx, m, c, seen)
	}
	if err == nil {
		err = checkStartsPlain(ctx, m, tree)
	}
	return err
}

// checkStartsPlain refuses to leave plain files that would not start: without the updater, nothing fetches a damaged file again,
// and links work on a file system on which no program can be executed.
func checkStartsPlain(ctx context.Context, m *Machine, tree versions.Tree) error {
	if _, _, err := host.Lost(m.Host, tree); err != nil {
		return failure.Unchanged("see what version %s is started by: %w", tree.Release.Short(), err).To("correct that first").Refused()
	}
	err := tree.Verify(ctx)
	if failure.Is[*versions.DamagedError](err) {
		return failure.Unchanged("keeping version %s as plain files is refused: %w", tree.Release.Short(), err).
			To("`teleport-update enable` fetches it again, then run the command again").Refused()
	}
	if err != nil {
		return failure.Unchanged("%w", err).To("correct that first")
	}
	program := tree.Binary(host.AgentName)
	if _, other := m.programInPlace(tree); other != "" {
		program = other // it stays, and is started
	}
	why, err := executable.Why(program)
	if err == nil && why == nil {
		why, err = noExec(m.Host.Paths.LinkDir)
	}
	if err != nil {
		return failure.Unchanged("see whether the agent would start as plain files: %w", err).To("correct that first")
	}
	if why != nil {
		return failure.Unchanged("the agent would not start as plain files: %w", why).To("correct that first").Refused()
	}
	return nil
}

// noExec returns why no program in a folder can be executed, nil if one can. A missing folder is made later.
func noExec(dir string) (why, err error) {
	noexec, err := space.NoExec(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil || !noexec:
		return nil, err
	}
	return fmt.Errorf("the file system of %s is mounted noexec (see `findmnt -T %[1]s`)", dir), nil
}

// checkKeepsOwn refuses to leave the active version on another version's database: somebody may have put copies of updates.yaml and
// of the links back since that version ran, or while it runs.
func checkKeepsOwn(ctx context.Context, m *Machine, c state.Config, seen Seen) error {
	sight, err := seen.Sight(ctx)
	if err != nil {
		return err
	}
	active := c.Active().Short()
	if serves, apart := servesApart(m.Host, sight, c.Active()); apart {
		return failure.Unchanged("keeping version %s as plain files is refused: the agent runs version %s, and the database may be that "+
			"version's", active, serves.Short()).
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
		return nil // without systemd nobody knows more, see ownerByTables
	}
	now, err := seen.Schema(ctx)
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
