package installer

import (
	"context"
	"fmt"

	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// PolicyReport reads the policy and changes nothing.
func (i *Installer) PolicyReport() (view.PolicyReport, error) {
	c, err := i.survey().Config()
	if err != nil {
		return view.PolicyReport{}, err
	}
	p, err := i.ownerRules().policy(c)
	if err != nil {
		return view.PolicyReport{}, refusedByOwner(err)
	}
	entries, err := i.Machine.Host.Store.List()
	if err != nil {
		return view.PolicyReport{}, err
	}
	r := view.PolicyReport{
		Folder: i.Machine.Host.Paths.PolicyDir, File: p.File, Minimum: view.Known(p.Minimum), Withdrawn: append([]string{}, p.Withdrawn...),
		Releases: p.Releases, Signatures: p.Signatures, Keys: []view.PolicyKey{}, Ignored: append([]string{}, p.Ignored...),
		Versions:   []view.PolicyVersion{},
		Remembered: c.Status.PolicySeen != nil,
	}
	for _, k := range p.Keys {
		r.Keys = append(r.Keys, view.PolicyKey{File: k.Name, SHA256: k.ID()})
	}
	for _, e := range entries {
		if e.Kind == versions.Complete {
			r.Versions = append(r.Versions, policyVersion(p, c, e.Tree))
		}
	}
	return r, nil
}

func policyVersion(p policy.Policy, c state.Config, t versions.Tree) view.PolicyVersion {
	v := view.PolicyVersion{Version: t.Release.Version, Edition: string(t.Release.Edition), Active: t.Release == c.Active()}
	err := p.Floors(t.Release, t.SHA256)
	if err == nil {
		err = p.Kept(t)
	}
	if err != nil {
		v.Refused = view.Known(err.Error())
	}
	return v
}

// ForgetPolicy has updates.yaml forget that there was a policy: root's way out where it is
// gone for good. One that is there is remembered again by the next run.
func (i *Installer) ForgetPolicy(ctx context.Context) error {
	unlock, err := i.Machine.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := i.Machine.FreshConfig()
	if err != nil {
		return err
	}
	if c.Status.PolicySeen == nil {
		i.Machine.Host.Log.Info("no policy is remembered; nothing to do")
		return nil
	}
	c.Status.PolicySeen = nil
	if err := c.Save(i.Machine.Host.Paths.Config()); err != nil {
		return failure.Unchanged("forget the policy: %w", err)
	}
	if _, err := i.ownerRules().policy(c); err != nil {
		i.Machine.Host.Log.Warn("what was there of a policy is forgotten, but the one that is there now still stops changes of the version",
			"error", err)
		return nil
	}
	i.Machine.Host.Log.Info("the policy is forgotten; if there is one now, it holds, and the next run remembers it", "folder",
		i.Machine.Host.Paths.PolicyDir)
	return nil
}

// makePolicy writes what enable was told of a policy, and takes away what an enable left that was
// cut off there.
func (i *Installer) makePolicy(ctx context.Context, opts EnableOptions) error {
	if opts.Minimum == "" && len(opts.ReleaseKeys) == 0 {
		return nil
	}
	if i.Machine.Host.Paths.PolicyDir == "" {
		return failure.Unchanged("this host has no folder for a policy")
	}
	unlock, err := i.Machine.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := policy.CleanUp(i.Machine.Host.Paths.PolicyDir); err != nil {
		i.Machine.Host.Log.Warn("some leftovers of an interrupted command could not be removed", "error", err)
	}
	if opts.Minimum != "" {
		if err := policy.SetMinimum(i.Machine.Host.Paths.PolicyDir, opts.Minimum); err != nil {
			return failure.Unchanged("--minimum: %w", err)
		}
	}
	if len(opts.ReleaseKeys) > 0 {
		if err := policy.AddKeys(i.Machine.Host.Paths.PolicyDir, opts.ReleaseKeys); err != nil {
			return fmt.Errorf("--release-key: %w; no other key was added, and the agent is as it was", err)
		}
	}
	return nil
}
