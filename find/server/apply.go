package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Change says what became of a resource that was applied.
type Change string

// The changes.
const (
	Created   Change = "created"
	Changed   Change = "changed"
	Unchanged Change = "unchanged"
)

// Applied is what an Apply did, or in a dry run would do.
type Applied struct {
	Resources []AppliedResource // in their order
	// Answer is what hosts of no group are told from then on.
	Answer   find.Answer
	Groups   []GroupAnswer // what hosts of the groups are told, where there are any
	Notes    []string      // what follows, in words for a person
	Warnings []string      // what is probably not meant
	// Scene is what there is then, without counts: those of the store are of another rollout.
	Scene rollout.Scene
}

// GroupAnswer is what the hosts of a group are told, and when their turn comes.
type GroupAnswer struct {
	rollout.Start
	Answer find.Answer
}

// AppliedResource is what became of one resource.
type AppliedResource struct {
	Change   Change
	Resource rollout.Resource
}

// RefusedError is the error of an Apply of what is well formed and yet cannot be.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }
func (e *RefusedError) Unwrap() error { return e.err }

// attempts is how often an Apply that is based on no revision tries to come
// between the changes of others.
const attempts = 10

// ApplyOptions say more about an Apply.
type ApplyOptions struct {
	DryRun bool // do all but write
	New    bool // the resources must not be there yet
	Who    string
	Why    string // the reason that was given; may be empty
}

// Apply puts resources into the store, all of them or none, and lets hosts know at
// once. One that is the same already is not written. If a resource names a
// revision and the store has another one, or if it is to be new and is not, the
// error is a *store.ConflictError.
func (s *Stored) Apply(ctx context.Context, list []rollout.Resource, opts ApplyOptions) (Applied, error) {
	named := opts.New
	kinds := map[string]bool{}
	for _, r := range list {
		if !slices.Contains(rollout.Kinds, r.GetKind()) {
			return Applied{}, &RefusedError{fmt.Errorf("%s is written by the server only; people write %s", r.GetKind(), strings.Join(rollout.Kinds, " and "))}
		}
		if kinds[r.GetKind()] {
			return Applied{}, &RefusedError{fmt.Errorf("the file has two resources of the kind %s", r.GetKind())}
		}
		kinds[r.GetKind()] = true
		named = named || r.GetMetadata().Revision != 0
	}
	for attempt := 1; ; attempt++ {
		applied, err := s.applyOnce(ctx, list, opts)
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict && !named && attempt < attempts {
			continue
		}
		return applied, err
	}
}

func (s *Stored) applyOnce(ctx context.Context, list []rollout.Resource, opts ApplyOptions) (Applied, error) {
	items, err := resources(ctx, s.opts.Store)
	if err != nil {
		return Applied{}, err
	}
	there := map[string]store.Item{}
	for _, item := range items {
		there[item.Key] = item
	}
	next, err := s.next(ctx, list, there)
	if err != nil {
		return Applied{}, err
	}
	now := s.opts.Clock()
	applied := Applied{Answer: next.answer(rollout.Query{}, now, s.opts.Base.AutoUpdate)}
	var writes []store.Write
	var written []rollout.Resource
	var changes []string // for the history
	for _, r := range list {
		found := there[r.GetKind()]
		based := store.Revision(r.GetMetadata().Revision)
		if based == store.None && !opts.New {
			based = found.Revision
		}
		if based != found.Revision {
			return Applied{}, &store.ConflictError{Key: r.GetKind(), Based: based, Found: found.Revision}
		}
		result, value, err := compare(r, found)
		if err != nil {
			return Applied{}, err
		}
		applied.Resources = append(applied.Resources, result)
		// What cannot be understood may be replaced.
		before, _ := parseStored(found)
		if result.Change != Unchanged {
			if words := changed(before, r); words != "" {
				changes = append(changes, words)
			}
			writes = append(writes, store.Write{Key: r.GetKind(), Value: value, Based: based})
			written = append(written, result.Resource)
		}
		s.explain(&applied, r, before, next)
	}
	s.conclude(&applied, next, now)
	if opts.DryRun {
		return applied, nil
	}
	if len(writes) > 0 {
		audit := store.Audit{Time: now, Who: cmp.Or(opts.Who, "unknown"), What: "apply", Why: opts.Why}
		if len(changes) > 0 {
			audit.What += ": " + strings.Join(changes, "; ")
		}
		revisions, err := s.opts.Store.Commit(ctx, store.Change{Writes: writes, Audit: audit})
		if err != nil {
			return Applied{}, err
		}
		for i, at := range revisions {
			written[i].GetMetadata().Revision = int64(at)
		}
	}
	// It is written; should the reading fail, Watch goes on with it.
	s.Refresh(ctx)
	return applied, nil
}

// next is what will be when the list is there beside what it does not replace.
func (s *Stored) next(ctx context.Context, list []rollout.Resource, there map[string]store.Item) (*snapshot, error) {
	var next snapshot
	replaced := map[string]bool{}
	for _, r := range list {
		next.put(r)
		replaced[r.GetKind()] = true
	}
	for _, kind := range kept {
		if item, ok := there[kind]; ok && !replaced[kind] {
			other, err := parseStored(item)
			if err != nil {
				return nil, err
			}
			next.put(other)
		}
	}
	if err := s.decide(ctx, &next); err != nil {
		return nil, &RefusedError{err}
	}
	return &next, nil
}

// compare returns what a resource does to what was found, which may be nothing,
// and the bytes to write.
func compare(r rollout.Resource, found store.Item) (AppliedResource, []byte, error) {
	value, err := stored(r)
	if err != nil {
		return AppliedResource{}, nil, err
	}
	result := AppliedResource{Change: Changed}
	switch {
	case found.Revision == store.None:
		result.Change = Created
	case bytes.Equal(found.Value, value):
		result.Change = Unchanged
	}
	clone, err := rollout.Parse(value)
	if err != nil {
		return AppliedResource{}, nil, err
	}
	result.Resource = clone[0]
	result.Resource.GetMetadata().Revision = int64(found.Revision)
	return result, value, nil
}

// stored returns the bytes that the resource is kept as. Its revision is the store's.
func stored(r rollout.Resource) ([]byte, error) {
	metadata := r.GetMetadata()
	defer func(revision int64) { metadata.Revision = revision }(metadata.Revision)
	metadata.Revision = 0
	return rollout.JSON(r)
}

// Get returns the resource of a kind as it is in the store, or store.ErrNotFound.
// Kinds of which there are several need a name.
func (s *Stored) Get(ctx context.Context, kind, name string) (rollout.Resource, error) {
	key := kind
	switch kind {
	case rollout.KindPlan:
		return s.plan(ctx, name)
	case rollout.KindReport:
		key = rollout.ReportKey(name)
	}
	item, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	item.Key = kind
	r, err := parseStored(item)
	if err == nil && s.isOld(r) {
		return nil, store.ErrNotFound
	}
	return r, err
}

// isOld reports whether a resource is a report that says nothing any more.
func (s *Stored) isOld(r rollout.Resource) bool {
	report, ok := r.(*rollout.Report)
	return ok && s.opts.Clock().Sub(report.Spec.Timestamp) > rollout.ReportLife
}

// plan returns the plan of a group without its hosts, and how far it has come.
func (s *Stored) plan(ctx context.Context, group string) (rollout.Resource, error) {
	item, err := s.opts.Store.Get(ctx, rollout.PlanKey(group))
	if err != nil {
		return nil, err
	}
	item.Key = rollout.KindPlan
	r, err := parseStored(item)
	if err != nil {
		return nil, err
	}
	plan := r.(*rollout.PlanResource)
	plan.Spec.Hosts, plan.Spec.NextPage = nil, ""
	if current := s.current.Load().Rollout; current != nil {
		for _, g := range current.Status.Groups {
			if g.Name == group && g.Plan != nil && g.Plan.StartTime.Equal(plan.Spec.StartTime) {
				plan.Status = &rollout.PlanStatus{LastActiveHostIndex: g.Plan.LastActiveHostIndex, FailedHostCount: g.FailedCount, TimeoutHostCount: g.TimedOutCount}
			}
		}
	}
	return plan, nil
}

// explain notes what one resource does not do.
func (s *Stored) explain(a *Applied, r, before rollout.Resource, n *snapshot) {
	config, ok := r.(*rollout.Config)
	if !ok {
		a.Notes = append(a.Notes, startWords(n)...)
		return
	}
	a.Warnings = append(a.Warnings, config.Warnings()...)
	old, _ := before.(*rollout.Config)
	paths := rollout.Waiting(old, config)
	if n.Version != nil && n.Rollout != nil && n.Rollout.Of(n.Version) && len(paths) > 0 {
		a.Notes = append(a.Notes, "these wait for the next rollout, which another version or a reset begins: "+strings.Join(paths, ", "))
	}
	if n.Version == nil && config.Spec.Agents.Mode == rollout.Enabled {
		note := "no version is set, and there was no release when the server started"
		if a.Answer.Version != "" {
			note = "no version is set: hosts are told the newest release that there was when the server started"
		}
		a.Notes = append(a.Notes, note)
	}
}

// startWords name the start version of a rollout that goes from group to group.
func startWords(n *snapshot) []string {
	if n.find == nil || len(n.find.Rollout().Status.Groups) == 0 {
		return nil
	}
	spec := n.find.Rollout().Spec
	if spec.StartVersion == spec.TargetVersion {
		return nil // which is warned of
	}
	return []string{fmt.Sprintf("the start version is %s: new hosts install it before the turn of their group, and a rollback goes back to it", spec.StartVersion)}
}

// conclude notes what follows from all of them.
func (s *Stored) conclude(a *Applied, n *snapshot, now time.Time) {
	a.Scene = rollout.Scene{Config: n.Config, Version: n.Version, Rollout: n.Rollout, Now: now}
	mode := rollout.EffectiveMode(n.Config, n.Version)
	switch {
	case n.Version != nil && mode != rollout.Enabled && n.Version.Spec.Agents.Schedule == rollout.Immediate:
		a.Notes = append(a.Notes, fmt.Sprintf("updates are %s%s: new hosts install the version, and no host updates by itself", mode, modeOf(n)))
	case n.Version != nil && mode != rollout.Enabled:
		a.Notes = append(a.Notes, fmt.Sprintf("updates are %s%s: no host updates by itself, and no group goes on", mode, modeOf(n)))
	case n.Version != nil && !s.opts.Base.AutoUpdate:
		a.Notes = append(a.Notes, "the server was started with --autoupdate=false: no host updates by itself")
	}
	if n.unclear != nil {
		a.Warnings = append(a.Warnings, fmt.Sprintf("hosts are told %s as before; %v", a.Answer.Edition, n.unclear))
	}
	if n.find == nil {
		if s.lacks(a.Answer.Version, a.Answer.Edition) {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s %s", noTarball, a.Answer.Version, a.Answer.Edition))
		}
		return
	}
	spec := n.find.Rollout().Spec
	for _, start := range rollout.Preview(n.Config, n.Version, n.Rollout, now) {
		a.Groups = append(a.Groups, GroupAnswer{start, n.answer(rollout.Query{Group: start.Group}, now, s.opts.Base.AutoUpdate)})
	}
	if len(a.Groups) == 0 && spec.Schedule != rollout.Immediate {
		a.Warnings = append(a.Warnings, fmt.Sprintf("the schedule %s has no groups, and no host is told to update: apply an %s with groups, or set the version with --schedule immediate", spec.Schedule, rollout.KindConfig))
	}
	if len(a.Groups) > 0 && spec.StartVersion == spec.TargetVersion {
		a.Warnings = append(a.Warnings, fmt.Sprintf("there is no start version other than %s: new hosts install it before the turn of their group, and a rollback has nowhere to go back to (--start, or spec.agents.start_version)", spec.TargetVersion))
	}
	for _, v := range slices.Compact([]rollout.Semver{spec.TargetVersion, spec.StartVersion}) {
		if s.lacks(string(v), n.editions[v]) {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s %s", noTarball, v, n.editions[v]))
		}
	}
}

// modeOf says where the mode comes from.
func modeOf(n *snapshot) string {
	mode := rollout.EffectiveMode(n.Config, n.Version)
	switch {
	case n.Version.Spec.Agents.Mode == mode:
		return " by " + rollout.KindVersion
	case n.Config != nil && n.Config.Spec.Agents.Mode == mode:
		return " by " + rollout.KindConfig
	}
	return `, because no mode is set ("teleport-find enable" does)`
}
