package installer

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Unpin lets the version follow find again.
func (i *Installer) Unpin(ctx context.Context) error {
	if bare, err := i.bare(); bare || err != nil {
		return err
	}
	return i.configure(ctx, func(c *state.Config) error {
		if !c.Spec.Pinned {
			i.Machine.Host.Log.Info("the host is not pinned; nothing to do")
			return nil
		}
		c.Spec.Pinned = false
		i.Machine.Host.Log.Info("the version follows the cluster again", "version", c.Spec.ActiveVersion)
		return nil
	})
}

// PinOptions are the flags of pin.
type PinOptions struct {
	AllowDowngrade bool // an older version, even without a database that belongs to it
	BelowMinimum   bool // also a version that the policy of the host's owner is against
}

// Pin stays on a version, whatever find wants; empty means the active one. It first installs another version, if find's templates have it;
// for an older one the rules of downgrades hold, unless AllowDowngrade is set.
func (i *Installer) Pin(ctx context.Context, v string, opts PinOptions) error {
	var in *intent
	none := failure.Unchanged("there is no active version to pin").To("`teleport-update enable` first")
	if err := i.readable(); err != nil {
		return err
	}
	if !host.Exists(i.Machine.Host.Paths.Versions()) {
		return none // a refusal makes no folder for a lock
	}
	err := i.configure(ctx, func(c *state.Config) error {
		active := c.Active()
		if active.Version == "" {
			return none
		}
		if v != "" && v != active.Version {
			in = &intent{wanted: wanted{Release: version.Release{Version: v, Edition: active.Edition}, Config: *c, Spec: c.Spec}}
			in.Spec.Pinned = true
			in.Request = transaction.Request{Kind: transaction.Pin, From: active, To: named(in.Release), Spec: &in.Spec, Force: opts.AllowDowngrade,
				BelowMinimum: opts.BelowMinimum}
			in.BelowMinimum = opts.BelowMinimum
			if p, err := i.ownerRules().policy(*c); err == nil { // else allow says so, which root may overrule
				if err := i.ownerRules().rememberPolicy(c, p); err != nil {
					return err
				}
			}
			if err := i.ownerRules().allow(*c, in.Request, versions.Tree{Release: in.Release}); err != nil {
				return err
			}
			return foresee(ctx, i.Machine, *c, in.Request)
		}
		c.Spec.Pinned = true
		i.Machine.Host.Log.Info("the version is pinned", "version", active.Version)
		return nil
	})
	if err != nil || in == nil {
		return err
	}
	if err = i.carryOut(ctx, in); err == nil {
		i.succeeded()
	}
	return err
}
