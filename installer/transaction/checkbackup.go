package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

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

// checkBackup tells whether a version's own database can be restored, if its backup is no older than maxAge, 0 for
// any age; the error says why not.
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

// notFor reports whether the agent does not run, or not for as long as a window yet. Where systemd does not
// run, nobody knows.
func (s Sight) notFor(window time.Duration, now time.Time) bool {
	return s.State != state.AgentUnknown && !s.healthyFor(window, now)
}

// healthyFor reports whether the agent is seen to run for as long as a window.
func (s Sight) healthyFor(window time.Duration, now time.Time) bool {
	return s.Running() && now.Sub(s.Since) >= window
}

// windowOf is for how long an agent has to run to be healthy.
func windowOf(c state.Config, s Sight) time.Duration {
	return cmp.Or(c.Spec.Health.Window.Std(), health.DefaultWindow(s.Unit))
}
