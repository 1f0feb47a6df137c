package installer

import (
	"context"
	"fmt"

	"teleport-update/installer/policy"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// makeWhole fetches a damaged active version again before the host leaves it for another one: an undoing
// goes back to it, and what it needs may not be had then. Without that the change is refused, unless a
// person insists; insisting is the command for that.
func makeWhole(ctx context.Context, i *Installer, to wanted, insists bool, insisting string) error {
	active := to.Config.Active()
	if active.Version == "" || active == to.Release {
		return nil
	}
	tree, damage, err := damageOf(ctx, i.Machine, to)
	if err != nil || damage == nil {
		return err
	}
	log := i.Machine.Host.Log
	if tree.Dir != "" {
		if err := i.Machine.CheckPair(ctx, to.Config, tree, i.Machine); failure.Is[*failure.RefusedError](err) {
			log.Warn("the active version is damaged, and stays so: an undoing goes back to the program that is there now", "error", err)
			return nil
		} else if err != nil {
			return fmt.Errorf("see whether the active version may be fetched again: %w; %s", err, transaction.StaysAsItIs(to.Config))
		}
	}
	log.Warn("the active version is damaged; it is fetched again before the change", "version", active.Short(), "error", damage)
	err = i.fetchAgain(ctx, wanted{Release: active, Config: to.Config, Spec: to.Config.Spec, Retried: to.Retried})
	byPolicy, _ := policy.Refuses(err)
	if byPolicy && tree.SHA256 != "" {
		err = i.obtainer().refetch(ctx, to.Config, transaction.TreeOf(tree)) // the very tarball that it came from
		if err == nil {
			i.chronicle().addRepair(active, []string{fetchedAgain})
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case insists || byPolicy: // whoever withdraws a version wants it left
		log.Warn("the active version stays damaged: the change may not be undone if the other version fails", "version", active.Short(), "error",
			err)
		return nil
	}
	return fmt.Errorf("version %s is damaged (%w) and could not be fetched again, so the change to version %s could not be "+
		"undone and waits: %w; `%s` makes it all the same",
		active.Short(), damage, to.Short(), err, insisting)
}

// damageOf is what is wrong with the active version on disk; nil if nothing is.
func damageOf(ctx context.Context, m *transaction.Machine, to wanted) (tree versions.Tree, damage, err error) {
	tree, ok, err := m.Active(to.Config)
	if err != nil {
		return tree, nil, err
	}
	if !ok {
		return tree, fmt.Errorf("%s", m.WhyNotKept(to.Config.Active())), nil
	}
	err = tree.Verify(ctx)
	if failure.Is[*versions.DamagedError](err) {
		return tree, err, nil
	}
	return tree, nil, err
}
