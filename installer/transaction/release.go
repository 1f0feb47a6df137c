package transaction

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// toKeep is the version whose agent stays on the host.
func (m *Machine) toKeep(c state.Config) (versions.Tree, error) {
	tree, ok, err := m.Active(c)
	if err == nil && !ok {
		err = failure.Unchanged("version %s is not whole on disk, so there is nothing to keep", c.Spec.ActiveVersion).
			To("`teleport-update enable` repairs it")
	}
	return tree, err
}

func (t *transaction) keepsAgent() bool { return t.asked().KeepAgent }

// asked is the uninstall that goes on; a journal of an older program may not have it.
func (t *transaction) asked() state.Uninstall {
	if t.j.Uninstall == nil {
		return state.Uninstall{}
	}
	return *t.j.Uninstall
}

// releaseFiles makes links and unit what they are to be without the updater.
func (t *transaction) releaseFiles(ctx context.Context, c state.Config) error {
	err := t.releaseAgent(ctx, c)
	if err == nil {
		_, err = t.m.Host.ReportToCluster(false)
	}
	return err
}

func (t *transaction) releaseAgent(ctx context.Context, c state.Config) error {
	if !t.keepsAgent() {
		return t.m.Host.PutBack(ctx)
	}
	tree, err := t.m.toKeep(c)
	if err != nil {
		return err
	}
	if err := host.PlaceLost(t.m.Host, tree); err != nil {
		return err
	}
	if err := host.LeavePlainFiles(t.m.Host.Paths.LinkDir, tree); err != nil {
		return err
	}
	// The agent that stays needs them, and what is the updater's own is removed later.
	kept, err := t.m.Host.OwnUnits().KeepCarried()
	if kept != "" {
		t.m.Host.Log.Info("what an administrator wrote into the agent's unit stays in force, in a drop-in that is theirs from now on",
			"file", kept)
	}
	return err
}
