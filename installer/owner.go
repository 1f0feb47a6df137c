package installer

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/installer/decision"
	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// policy reads the rules of the host's owner. A *policy.BrokenError means that they
// cannot be relied on.
func (o ownerRules) policy(c state.Config) (policy.Policy, error) {
	if o.m.Host.Paths.PolicyDir == "" {
		return policy.Policy{Signatures: policy.Off}, nil
	}
	return policy.Load(o.m.Host.Paths.PolicyDir, seenOf(c))
}

// seenOf returns the record of the policy in updates.yaml.
func seenOf(c state.Config) policy.Seen {
	s := c.Status.PolicySeen
	if s == nil {
		return policy.Seen{}
	}
	return policy.Seen{Policy: s.File, Keys: s.Keys, Rules: s.Rules}
}

// rememberPolicy records in updates.yaml that a policy was there. It runs under the update lock, before anything is done by the policy.
func (o ownerRules) rememberPolicy(c *state.Config, p policy.Policy) error {
	if is := p.Seen(); !c.Status.SeePolicy(is.Policy, is.Keys, is.Rules) {
		return nil
	}
	if err := c.Save(o.m.Host.Paths.Config()); err != nil {
		return fmt.Errorf("remember the policy of this host: %w", err)
	}
	return nil
}

// seePolicy reads the policy, and remembers that it was there.
func (o ownerRules) seePolicy(c *state.Config) (policy.Policy, error) {
	p, err := o.policy(*c)
	if err != nil {
		return p, refusedByOwner(err)
	}
	return p, o.rememberPolicy(c, p)
}

// rememberSeen is rememberPolicy for a command that has no lock: once a first enable has succeeded, and when a run of the timer has nothing
// else to do.
func (o ownerRules) rememberSeen(ctx context.Context, c state.Config, p policy.Policy) {
	is := p.Seen()
	if !c.Status.SeePolicy(is.Policy, is.Keys, is.Rules) {
		return
	}
	err := changeStatus(ctx, o.m, func(c *state.Config) { c.Status.SeePolicy(is.Policy, is.Keys, is.Rules) })
	if err != nil {
		o.m.Host.Log.Warn("it could not be recorded that this host has a policy; the next run tries again", "error", err)
	}
}

// seePolicyOnEnable is seePolicy, but writes nothing on a host that was never enabled: Enable
// remembers the policy once it has succeeded.
func (o ownerRules) seePolicyOnEnable(c *state.Config) error {
	if c.Spec.ActiveVersion != "" {
		_, err := o.seePolicy(c)
		return err
	}
	_, err := o.policy(*c)
	return refusedByOwner(err)
}

// refusedByOwner marks an error of the policy as a refusal before the first change.
func refusedByOwner(err error) error {
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		return failure.Unchanged("%w", refusal).Refused()
	}
	if broken, ok := errors.AsType[*policy.BrokenError](err); ok {
		return failure.Unchanged("%w", broken).
			To("the agent goes on with its version; repair the policy, or see `teleport-update policy --help`").Refused()
	}
	return err
}

// allow asks the policy before a transaction. Root's flags overrule a part of the policy, and so does a version that root names. An open
// transaction is closed without asking.
func (o ownerRules) allow(c state.Config, r transaction.Request, tree versions.Tree) error {
	return o.allowBy(c, r, tree, o.m.Scheduled)
}

// allowBy is allow for the timer, or for a person.
func (o ownerRules) allowBy(c state.Config, r transaction.Request, tree versions.Tree, timer bool) error {
	p, err := o.policy(c)
	if err == nil {
		err = p.Floors(r.To.Release, tree.SHA256)
	}
	if err != nil && r.BelowMinimum {
		o.m.Host.Log.Warn("the policy of this host is overruled by --below-minimum", "version", r.To.Version, "error", err)
		return nil
	}
	named := !timer && (r.Kind == transaction.Rollback || r.Kind == transaction.Pin) // by a person
	if err == nil && !named {
		err = p.Kept(tree)
	}
	err = refusedByOwner(err)
	switch {
	case named:
		return overrule(err, r)
	case r.Kind == transaction.Rollback:
		return instead(err, c)
	}
	return err
}

// overrule adds to a refusal how a person who named the version can overrule the policy.
func overrule(err error, r transaction.Request) error {
	refusal, ok := errors.AsType[*policy.Refusal](err)
	if !ok {
		return err
	}
	switch refusal.Rule {
	case policy.BelowMinimum, policy.IsWithdrawn:
	case policy.OtherDigest:
		if r.Kind != transaction.Rollback { // pin would fetch the version, and the list holds for mirrors
			return err
		}
	default:
		return err
	}
	return failure.Unchanged("%w", refusal).To("with --below-minimum the command does it all the same").Refused()
}

// instead adds to a refusal of the timer's rollback what a person can do: a rollback fetches nothing, so the policy would refuse the next
// one too.
func instead(err error, c state.Config) error {
	refusal, ok := errors.AsType[*policy.Refusal](err)
	if !ok {
		return err
	}
	fix := "`teleport-update rollback --below-minimum` goes back all the same"
	if refusal.Rule == policy.BadSignature { // root may go back to a version on disk
		fix = fmt.Sprintf("`teleport-update rollback` goes back to what is on disk all the same, `%s` fetches it again, with its signature",
			pinning(refusal.Release, c.Active()))
	}
	return failure.Unchanged("%w", refusal).To("%s", fix).Refused()
}

// refusesBack returns why the policy refuses the timer's rollback to the previous version; empty if it does not, or if the timer may not
// roll back.
func (o ownerRules) refusesBack(c state.Config) string {
	previous := c.Previous()
	if c.Spec.Health.RollbackWindow == 0 || previous.Version == "" || !c.Spec.Enabled || c.Spec.Pinned {
		return ""
	}
	tree, ok, err := o.m.Host.Store.Lookup(previous)
	if err != nil || !ok {
		return ""
	}
	err = o.allowBy(c, transaction.Request{Kind: transaction.Rollback, From: c.Active(), To: transaction.TreeOf(tree)}, tree, true)
	if byPolicy, _ := policy.Refuses(err); !byPolicy {
		return ""
	}
	return err.Error()
}

// allowTransaction is allow for a request whose tree is looked up, with the configuration as it is after the
// download: the policy may have changed while the version was fetched.
func (o ownerRules) allowTransaction(c state.Config, r transaction.Request) error {
	tree, ok, err := o.m.Host.Store.Lookup(r.To.Release)
	if err != nil {
		return err
	}
	if !ok {
		tree = versions.Tree{Release: r.To.Release, SHA256: r.To.SHA256}
	}
	return o.allow(c, r, tree)
}

// guard holds what obtain asks about a release that is to be on disk.
type guard struct {
	verifier *policy.Verifier // nil: nobody is asked
	kept     func(versions.Tree) error
}

// guardOf returns the guard of a release. Nobody is asked about the release that an open transaction goes back to, nor about the very
// tarball that the active version came from.
func (o ownerRules) guardOf(w wanted) (guard, error) {
	none := guard{kept: func(versions.Tree) error { return nil }}
	if w.Unasked {
		return none, nil
	}
	p, err := o.policy(w.Config)
	if err != nil && w.BelowMinimum {
		// allow writes the warning. --below-minimum is about versions: it does not overrule who signs.
		p, err = policy.Remains(o.m.Host.Paths.PolicyDir), nil
	}
	if err != nil {
		return none, refusedByOwner(err)
	}
	repair := w.Release == w.Config.Active()
	v := &policy.Verifier{Policy: p, NoFloors: repair || w.BelowMinimum, Log: o.m.Host.Log}
	if repair {
		if tree, ok, err := o.m.Host.Store.Lookup(w.Release); err == nil && ok {
			v.Has = tree.SHA256
		}
		return guard{verifier: v, kept: none.kept}, nil
	}
	return guard{verifier: v, kept: p.Kept}, nil
}

// aboutPolicy returns what the policy says about the active version, and about a version that it refused.
func (o ownerRules) aboutPolicy(c state.Config) (a decision.Policy) {
	p, err := o.policy(c)
	refused := c.Status.Refused
	recorded := refused != nil && refused.Policy
	if err != nil {
		a.Broken = err
		if recorded {
			a.Target = refusedByOwner(err).Error()
		}
		return a
	}
	a.Gone = p.Gone(seenOf(c))
	if recorded {
		if err := p.Floors(refused.Release(), refused.SHA256); err != nil {
			a.Target = refusedByOwner(err).Error()
		}
	}
	active := c.Active()
	if active.Version == "" {
		return a
	}
	tree, ok, err := o.m.Host.Store.Lookup(active)
	if err != nil || !ok {
		tree = versions.Tree{Release: active}
	}
	if err := p.Floors(active, tree.SHA256); err != nil {
		a.Refused = err.Error()
	}
	if p.Signatures == policy.Off || !ok {
		return a
	}
	p.Signatures = policy.Require
	err = p.Kept(tree)
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok && refusal.Rule == policy.OtherDigest {
		return a // a rule that does not depend on signatures
	}
	if err != nil {
		a.Unsigned = policy.Reason(err)
	}
	return a
}

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

// ForgetPolicy removes the record of a policy from updates.yaml: root's way out if the policy is gone for good. If there is a policy, the
// next run records it again.
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

// makePolicy writes the policy that the flags of enable describe, and removes leftovers of an interrupted enable.
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
