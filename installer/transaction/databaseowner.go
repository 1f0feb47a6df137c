package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/backup"
	"teleport-update/health"
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
// one that runs, or that ran last.
type owner struct {
	another bool
	version string // of another program; empty if nobody can tell
	// unlike means that only the tables show another owner: they are not the tables that the active version was proven with.
	unlike bool
}

// databaseOwner asks the agent that runs, or the program that would be started if none runs. updates.yaml
// is a record, and is asked after the host.
func (m *Machine) databaseOwner(ctx context.Context, sight Sight, c state.Config) (owner, error) {
	active := c.Active()
	if active.Version == "" {
		return owner{}, nil
	}
	tree, ok, err := m.Active(c)
	serving := sight.serving()
	isActive := func(p procfs.Process) bool {
		runs, ours := m.Host.Store.ReleaseOf(p.Exe)
		return ours && runs.Version == active.Version && sameEdition(runs, active)
	}
	is, another := "", false
	if ok {
		is, another = exchanged(ctx, tree)
	}
	switch ran := slices.ContainsFunc(serving, isActive); {
	case ran && !another:
		return ownerByTables(ctx, m, sight, c) // between two crashes it serves, too
	case !ran && len(serving) > 0:
		_, ours := m.Host.Store.ReleaseOf(serving[0].Exe)
		runs := versionOf(ctx, m.Host, serving[0].Exe)
		if ours || runs != "" && runs != active.Version {
			m.Host.Log.Warn("updates.yaml names another version than the one that runs, whose database is kept apart", "active", active.Version,
				"runs", runs)
			return owner{another: true, version: runs}, nil
		}
	}
	if err != nil || !ok {
		if there := leftLinked(m, c); there.Version != "" {
			return owner{another: true, version: there.Version}, nil
		}
		return ownerByTables(ctx, m, sight, c)
	}
	err = m.CheckPair(ctx, c, tree, m)
	if err == nil {
		return ownerByTables(ctx, m, sight, c)
	}
	if !failure.Is[*failure.RefusedError](err) {
		return owner{}, err
	}
	m.Host.Log.Warn("the database of today is not of the active version", "error", err)
	if _, program := m.programInPlace(tree); !another && program == "" {
		is = goneInPlace(m, tree)
	} else if !another {
		is = versionOf(ctx, m.Host, program)
	}
	return owner{another: true, version: is}, nil
}

// leftLinked returns the version that the agent's link leads to, if somebody wrote another one into active_version, which is
// not on disk; otherwise zero.
func leftLinked(m *Machine, c state.Config) version.Release {
	program, err := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, host.AgentName))
	if err != nil || !c.Edited() {
		return version.Release{}
	}
	there, _ := m.Host.Store.ReleaseOf(program)
	return there
}

// ownerByTables is for a host on which no other program is seen. Somebody may have put back yesterday's updates.yaml and
// links after a later version had changed the tables: then the active version does not run on them. Tables are noted when
// a version is proven. A version that is healthy on other tables, or was not proven, may have changed them itself.
func ownerByTables(ctx context.Context, m *Machine, sight Sight, c state.Config) (owner, error) {
	if sight.healthyFor(windowOf(c, sight), m.Now()) {
		return owner{}, nil
	}
	now, other, err := otherTables(ctx, c, m)
	if err != nil {
		// The backup of the database reports what is wrong with it.
		m.Host.Log.Debug("it is not known whether the tables of the agent's database are those of the active version", "error", err)
		return owner{}, ctx.Err()
	}
	if !other {
		return owner{}, nil
	}
	m.Host.Log.Warn("the agent is not seen to be healthy, and its database has other tables than the active version was proven with",
		"active", c.Active().Short(), "noted", c.Status.ActiveSchema, "now", now)
	// Without systemd, nobody knows whether the agent is healthy: today's database is kept, and nothing is refused.
	return owner{another: true, unlike: sight.State != state.AgentUnknown}, nil
}

// otherTables reports whether the agent's database has other tables than the active version was proven with. If no tables
// were noted, or the version is not proven, nobody knows, and the database is not read.
func otherTables(ctx context.Context, c state.Config, seen Seen) (now string, other bool, err error) {
	noted := c.Status.ActiveSchema
	if noted == "" || c.Status.Unproven {
		return "", false, nil
	}
	now, err = seen.Schema(ctx)
	return now, err == nil && now != "" && now != noted, err
}

// CheckTables returns why the active version may not be able to start on the agent's database: the database has other tables than
// the version was proven with, and no backup shows that an older version left them, which a start would migrate. why is nil if
// nothing shows. The agent has to be down: the database of a running agent is not read. err is why the tables could not be read;
// a database that only the agent can recover is no error.
func CheckTables(ctx context.Context, m *Machine, c state.Config, seen Seen) (why, err error) {
	sight, err := seen.Sight(ctx)
	down := sight.State == state.AgentStopped || sight.State == state.AgentFailing
	if err != nil || !down {
		return nil, err
	}
	if tree, ok, err := m.Active(c); err == nil && ok {
		if _, program := m.programInPlace(tree); program != "" || goneInPlace(m, tree) != "" {
			return nil, nil // CheckPair says more of it
		}
	}
	now, other, err := otherTables(ctx, c, seen)
	switch {
	case errors.Is(err, backup.ErrUnsettled):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("whether the agent's database fits version %s: %w", c.Active().Short(), err)
	case !other || leftByOlder(ctx, m, c, now):
		return nil, nil
	}
	return fmt.Errorf("the agent's database has other tables than version %s was proven with, so another version may have changed them "+
		"since, and version %s may not be able to start on them: %s", c.Active().Short(), c.Active().Short(), bringsBack(m, c)), nil
}

// leftByOlder reports whether a backup shows that the active version, or an older one, left a database with these tables.
func leftByOlder(ctx context.Context, m *Machine, c state.Config, tables string) bool {
	all, _, err := m.completeBackups(ctx)
	return err == nil && slices.ContainsFunc(all, func(b aBackup) bool {
		older := b.meta.Version != "" && version.Compare(b.meta.Version, c.Spec.ActiveVersion) <= 0
		return older && b.schema.Digest() == tables
	})
}

// checkBack refuses to go back if only the tables show whose the database is: a restore would take away what another version
// wrote since. A person may insist, and finds today's database among the backups that are kept.
func (o owner) checkBack(m *Machine, c state.Config, r Request, itsOwn bool) error {
	back := version.Compare(r.To.Version, c.Spec.ActiveVersion) < 0
	insists := r.Force || r.SkipBackup
	if !o.unlike || !back || itsOwn || insists {
		return nil
	}
	fix := fmt.Sprintf("%s; `teleport-update %s` goes back all the same, and keeps today's database in %s", bringsBack(m, c), r.insisting(),
		m.Host.Paths.KeptBackups())
	return failure.Unchanged("going back to version %s is refused: %s", r.To.Short(), unlikeTables(c)).To("%s", fix).Refused()
}

// unlikeTables says what is seen, which is all that is known.
func unlikeTables(c state.Config) string {
	return fmt.Sprintf("the agent is not seen to be healthy, and its database has other tables than version %s was proven with, "+
		"so another version may have changed them since", c.Active().Short())
}

// bringsBack advises to run the version that changed the tables. It is named if only one version on disk can be it.
func bringsBack(m *Machine, c state.Config) string {
	name := ""
	if may := mayHaveChanged(m, c); len(may) == 1 {
		name = may[0].Version
	}
	return fmt.Sprintf("`teleport-update pin %s` brings back the version that changed the tables, which goes on with them, "+
		"or set the cluster to it", orVersion(name))
}

// mayHaveChanged returns the versions on disk that may have changed the agent's tables since the active version ran: newer ones
// that have not failed.
func mayHaveChanged(m *Machine, c state.Config) (newer []version.Release) {
	entries, err := m.Host.Store.List()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		isNewer := e.Kind == versions.Complete && version.Compare(e.Release.Version, c.Spec.ActiveVersion) > 0
		if isNewer && sameEdition(e.Release, c.Active()) && c.Status.FailureOf(e.Release) == nil {
			newer = append(newer, e.Release)
		}
	}
	return newer
}

// sameEdition reports whether two releases are of one edition, as far as that is known.
func sameEdition(a, b version.Release) bool {
	return a.Edition == b.Edition || a.Edition == "" || b.Edition == ""
}

// versionOf returns the version of a program of the agent's, or "" if it cannot be found. A program that
// others than root can exchange is not executed.
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

// has reports whether today's database is a release's own already. If nobody knows whose it is, has reports whether
// that release can read it, since it left a database with the same tables.
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

// WhyNotKept says why a version cannot be gone back to from disk.
func (m *Machine) WhyNotKept(r version.Release) string {
	entries, err := m.Host.Store.List()
	if err != nil {
		return err.Error()
	}
	for _, e := range entries {
		if e.Kind == versions.Incomplete && e.Release.Version == r.Version {
			return fmt.Sprintf("its folder %s is incomplete (%s)", e.Name, e.Why)
		}
	}
	return "it is not on this host any more, and neither is the database it had"
}

// checkBackup checks whether a version's own database can be restored, if its backup is no older than maxAge, 0
// for any age; the error says why not.
func (m *Machine) checkBackup(ctx context.Context, spec state.Spec, req Request, maxAge time.Duration) error {
	to, otherwise := req.To.Release, "set another version in the cluster, or "
	insist, kept := "enable --allow-downgrade", fmt.Sprintf("rollback %s --force", to.Version)
	switch req.Kind {
	case Rollback:
		otherwise = ""
	case Pin:
		otherwise = ""
		insist = fmt.Sprintf("pin %s --allow-downgrade", to.Version)
		kept = insist
	}
	tree, ok, err := m.Host.Store.Lookup(to)
	if err != nil {
		return err
	}
	if !ok {
		return failure.Unchanged("going back to version %s is refused: %s", to.Short(), m.WhyNotKept(to)).
			To("%srun `teleport-update %s`, which keeps today's database", otherwise, insist).Refused()
	}
	want := backup.Want{Proxy: spec.Proxy, Version: to.Version, Edition: to.Edition, MaxAge: maxAge, Now: m.Now()}
	if path, err := m.Host.Database(); err == nil {
		if db, err := backup.Open(path); err == nil {
			defer db.Close()
			want.Live = db
		}
	}
	err = backup.Check(ctx, tree.BackupDir(), want)
	if invalid, ok := errors.AsType[*backup.InvalidError](err); ok {
		return failure.Unchanged("going back to version %s is refused: %s", to.Short(), invalid).
			To("%srun `teleport-update %s`, which keeps today's database", otherwise, kept).Refused()
	}
	return err
}

// notFor reports whether the agent does not run, or not for as long as a window yet. It is false without
// systemd: then nobody knows.
func (s Sight) notFor(window time.Duration, now time.Time) bool {
	return s.State != state.AgentUnknown && !s.healthyFor(window, now)
}

// healthyFor reports whether the agent is seen to run for as long as a window.
func (s Sight) healthyFor(window time.Duration, now time.Time) bool {
	return s.Running() && now.Sub(s.Since) >= window
}

// windowOf returns how long an agent has to run to be healthy.
func windowOf(c state.Config, s Sight) time.Duration {
	return cmp.Or(c.Spec.Health.Window.Std(), health.DefaultWindow(s.Unit))
}
