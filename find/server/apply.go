package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

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
	Change   Change
	Resource rollout.Resource
	Answer   find.Answer // what hosts are told from then on
	Notes    []string    // what follows, in words for a person
	Warnings []string    // what is probably not meant
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
	New    bool // the resource must not be there yet
}

// Apply puts a resource into the store, and lets hosts know at once. One that is
// the same already is not written. If the resource names a revision and the store
// has another one, or if it is to be new and is not, the error is a
// *store.ConflictError.
func (s *Stored) Apply(ctx context.Context, r rollout.Resource, opts ApplyOptions) (Applied, error) {
	if err := rollout.Unsupported(r); err != nil {
		return Applied{}, &RefusedError{err}
	}
	for attempt := 1; ; attempt++ {
		applied, err := s.applyOnce(ctx, r, opts)
		_, conflict := errors.AsType[*store.ConflictError](err)
		if anyState := r.GetMetadata().Revision == 0 && !opts.New; conflict && anyState && attempt < attempts {
			continue
		}
		return applied, err
	}
}

func (s *Stored) applyOnce(ctx context.Context, r rollout.Resource, opts ApplyOptions) (Applied, error) {
	kind := r.GetKind()
	items, _, err := s.opts.Store.List(ctx, resourcePrefix)
	if err != nil {
		return Applied{}, err
	}
	var next snapshot
	var before rollout.Resource
	found := store.Item{}
	for _, item := range items {
		switch item.Key {
		case kind:
			found = item
			// What cannot be understood may be replaced.
			before, _ = parseStored(item)
		case rollout.KindConfig, rollout.KindVersion:
			other, err := parseStored(item)
			if err != nil {
				return Applied{}, err
			}
			next.put(other)
		}
	}
	based := store.Revision(r.GetMetadata().Revision)
	if based == store.None && !opts.New {
		based = found.Revision
	}
	if based != found.Revision {
		return Applied{}, &store.ConflictError{Key: kind, Based: based, Found: found.Revision}
	}

	value, err := stored(r)
	if err != nil {
		return Applied{}, err
	}
	next.put(r)
	applied := Applied{Change: Created, Resource: r}
	if applied.Answer, err = s.decide(&next); err != nil {
		return Applied{}, &RefusedError{err}
	}
	switch {
	case found.Revision == store.None:
	case bytes.Equal(found.Value, value):
		applied.Change = Unchanged
	default:
		applied.Change = Changed
	}
	s.explain(&applied, before, &next)
	at := found.Revision
	if !opts.DryRun && applied.Change != Unchanged {
		if at, err = s.opts.Store.Put(ctx, kind, value, based); err != nil {
			return Applied{}, err
		}
		// It is written; should the reading fail, Watch goes on with it.
		s.Refresh(ctx)
	}
	clone, err := rollout.Parse(value)
	if err != nil {
		return Applied{}, err
	}
	applied.Resource = clone[0]
	applied.Resource.GetMetadata().Revision = int64(at)
	return applied, nil
}

// stored returns the bytes that the resource is kept as. Its revision is the store's.
func stored(r rollout.Resource) ([]byte, error) {
	metadata := r.GetMetadata()
	defer func(revision int64) { metadata.Revision = revision }(metadata.Revision)
	metadata.Revision = 0
	return rollout.JSON(r)
}

// Get returns the resource of a kind as it is in the store, or store.ErrNotFound.
func (s *Stored) Get(ctx context.Context, kind string) (rollout.Resource, error) {
	item, err := s.opts.Store.Get(ctx, kind)
	if err != nil {
		return nil, err
	}
	return parseStored(item)
}

func (s *Stored) explain(a *Applied, before rollout.Resource, n *snapshot) {
	if config, ok := a.Resource.(*rollout.Config); ok {
		old, _ := before.(*rollout.Config)
		if paths := rollout.Waiting(old, config); len(paths) > 0 {
			a.Notes = append(a.Notes, "kept for rollouts from group to group, which this server cannot do yet: "+strings.Join(paths, ", "))
		}
		if n.version == nil && config.Spec.Agents.Mode == rollout.Enabled {
			a.Notes = append(a.Notes, "no version is set: hosts are told the newest release that there was when the server started")
		}
	}
	if hasTools(a.Resource) {
		a.Notes = append(a.Notes, "spec.tools is kept, and client tools are told to stay as they are")
	}
	mode := rollout.EffectiveMode(n.config, n.version)
	switch {
	case n.version != nil && mode != rollout.Enabled:
		a.Notes = append(a.Notes, fmt.Sprintf("updates are %s%s: new hosts install the version, and no host updates by itself", mode, modeOf(n)))
	case n.version != nil && !s.opts.Base.AutoUpdate:
		a.Notes = append(a.Notes, "the server was started with --autoupdate=false: no host updates by itself")
	}
	if s.lacks(a.Answer) {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s %s", noTarball, a.Answer.Version, a.Answer.Edition))
	}
}

func hasTools(r rollout.Resource) bool {
	switch r := r.(type) {
	case *rollout.Config:
		return r.Spec.Tools != rollout.ConfigTools{}
	case *rollout.Version:
		return r.Spec.Tools != rollout.VersionTools{}
	}
	return false
}

// modeOf says where the mode comes from.
func modeOf(n *snapshot) string {
	mode := rollout.EffectiveMode(n.config, n.version)
	switch {
	case n.version.Spec.Agents.Mode == mode:
		return " by " + rollout.KindVersion
	case n.config != nil && n.config.Spec.Agents.Mode == mode:
		return " by " + rollout.KindConfig
	}
	return `, because no mode is set ("teleport-find enable" does)`
}
