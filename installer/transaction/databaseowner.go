package transaction

import (
	"context"
	"path/filepath"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// An owner is the program that wrote the agent's database last. It is the active version's, unless somebody
// put another program in its place, or put back a copy of updates.yaml that names another version than the
// one that runs.
type owner struct {
	another bool
	version string // of another program; empty if nobody can tell
}

// databaseOwner asks the agent that runs, and what would be started if none runs. updates.yaml is a record,
// and not asked before the host is.
func (m *Machine) databaseOwner(ctx context.Context, sight Sight, c state.Config) (owner, error) {
	active := c.Active()
	if active.Version == "" {
		return owner{}, nil
	}
	serving := sight.serving()
	for _, p := range serving {
		if runs, ok := m.Host.Store.ReleaseOf(p.Exe); ok && runs.Version == active.Version && sameEdition(runs, active) {
			return owner{}, nil
		}
	}
	if len(serving) > 0 {
		_, ours := m.Host.Store.ReleaseOf(serving[0].Exe)
		runs := versionOf(ctx, m.Host, serving[0].Exe)
		if ours || runs != "" && runs != active.Version {
			m.Host.Log.Warn("updates.yaml names another version than the one that runs, whose database is kept apart", "active", active.Version,
				"runs", runs)
			return owner{another: true, version: runs}, nil
		}
	}
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		return owner{}, nil
	}
	err = m.CheckPair(ctx, c, tree, m)
	if !failure.Is[*failure.RefusedError](err) {
		return owner{}, err
	}
	m.Host.Log.Warn("the database of today is not of the active version", "error", err)
	_, program := m.programInPlace(tree)
	return owner{another: true, version: versionOf(ctx, m.Host, program)}, nil
}

// sameEdition reports whether two releases are of one edition, as far as that is known.
func sameEdition(a, b version.Release) bool {
	return a.Edition == b.Edition || a.Edition == "" || b.Edition == ""
}

// versionOf is the version of a program of the agent's, empty if that cannot be told. A program that others
// than root can exchange is not executed.
func versionOf(ctx context.Context, h *host.Host, program string) string {
	if r, ok := h.Store.ReleaseOf(program); ok {
		return r.Version
	}
	if filepath.Base(program) != host.AgentName || trust.Path(program) != nil {
		return ""
	}
	runs, err := versions.ProgramVersion(ctx, program)
	if err != nil {
		h.Log.Debug("a program in the place of the active version names no version", "program", program, "error", err)
	}
	return runs
}

// serving are the processes of which one has the agent's database: the one that the PID file names, or any, with the
// main process first.
func (s Sight) serving() (all []procfs.Process) {
	switch {
	case s.Serving.PID != 0:
		return []procfs.Process{s.Serving}
	case s.Main.PID == 0:
		return nil
	}
	all = append(all, s.Main)
	for _, pid := range s.Group {
		if p := procfs.Host().Process(pid); p != nil {
			all = append(all, *p)
		}
	}
	return all
}

// has reports whether the database of today is a release's own already, or may be, if nobody can tell whose it is: then
// that release can read it, for it left one with the same tables.
func (o owner) has(ctx context.Context, m *Machine, r version.Release) bool {
	if !o.another || o.version != "" {
		return o.another && o.version == r.Version
	}
	tree, ok, err := m.Host.Store.Lookup(r)
	if err != nil || !ok {
		return false
	}
	left, err := backup.SchemaOf(ctx, tree.BackupDir())
	if err != nil {
		return false // there is none to restore
	}
	now, err := m.Schema(ctx)
	return err != nil || now == left.Digest()
}
