package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// StoredOptions say what a Stored answers from.
type StoredOptions struct {
	Store store.Store
	// Base is the answer while the store names no version. Its jitter and, as
	// far as nothing else is known, its edition are in every answer; without
	// its AutoUpdate no host is told to update, whatever the store says.
	Base find.Answer
	// Edition is that of every answer; where it is empty, the one that
	// Releases has of the version.
	Edition  version.Edition
	Releases *Releases // may be nil
	Log      *slog.Logger
}

// Stored is an Answerer that follows the resources of a store.
//
// Hosts are answered from a snapshot in memory. While the store cannot be read, or
// holds what cannot be understood, the last snapshot stays: to lose the store is
// to lose the ability to change an answer, and nothing else.
type Stored struct {
	opts    StoredOptions
	current atomic.Pointer[snapshot]

	refreshing sync.Mutex
	confirmed  time.Time // when the store last said that current is how it is
	failing    bool
}

type snapshot struct {
	items   []store.Item     // what all the rest is made of
	config  *rollout.Config  // nil: there is none
	version *rollout.Version // nil: there is none
	answer  find.Answer
	// unclear is why the releases do not say which edition: that of before is
	// in the answer, which is of the same version.
	unclear error
}

// NewStored returns a Stored that has read its store, or what is wrong with it.
func NewStored(ctx context.Context, opts StoredOptions) (*Stored, error) {
	s := &Stored{opts: opts}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Answer returns what the store says; neither group nor host make a difference.
func (s *Stored) Answer(_, _ string) find.Answer { return s.current.Load().answer }

// Watch takes up what others write into the store, until ctx ends. Trouble with
// the store is logged when it begins and when it is over.
func (s *Stored) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.Refresh(ctx) // which has logged what there is to say
	}
}

// Refresh makes the answers those of the store now. After an error they stay as
// they were.
func (s *Stored) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return s.refresh(ctx, false)
}

// Reload is Refresh, and looks at the releases again.
func (s *Stored) Reload() error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return s.refresh(context.Background(), true)
}

func (s *Stored) refresh(ctx context.Context, anew bool) error {
	before := s.current.Load()
	next, err := s.load(ctx, before, anew || s.failing)
	if err != nil {
		if before != nil && !s.failing && ctx.Err() == nil {
			s.failing = true
			s.opts.Log.Error("the store cannot be followed, and hosts get the answers of before",
				"error", err, "age", time.Since(s.confirmed).Round(time.Second), "answers", before.answer)
		}
		return err
	}
	if s.failing {
		s.failing = false
		s.opts.Log.Info("the store can be followed again", "after", time.Since(s.confirmed).Round(time.Second))
	}
	s.confirmed = time.Now()
	if next == before {
		return nil
	}
	s.current.Store(next)
	if before == nil || before.answer != next.answer {
		s.report(next)
	}
	return nil
}

// load returns the snapshot before where nothing has changed since, and nobody
// wants it anew.
func (s *Stored) load(ctx context.Context, before *snapshot, anew bool) (*snapshot, error) {
	items, _, err := s.opts.Store.List(ctx, resourcePrefix)
	if err != nil {
		return nil, err
	}
	// Not by the revision: a copy that was put back may have the same one.
	if before != nil && !anew && reflect.DeepEqual(items, before.items) {
		return before, nil
	}
	next := &snapshot{items: items}
	for _, item := range items {
		if item.Key != rollout.KindConfig && item.Key != rollout.KindVersion {
			continue
		}
		r, err := parseStored(item)
		if err != nil {
			return nil, err
		}
		next.put(r)
	}
	return next, s.decide(next)
}

// resourcePrefix is what the keys of resources start with. The only one of a kind
// is under the name of its kind.
const resourcePrefix = "autoupdate_"

func parseStored(item store.Item) (rollout.Resource, error) {
	list, err := rollout.Parse(item.Value)
	if err == nil && (len(list) != 1 || list[0].GetKind() != item.Key) {
		err = fmt.Errorf("it is another resource")
	}
	if err != nil {
		return nil, fmt.Errorf("the store's %s, revision %d, is not one that this version understands: %w", item.Key, item.Revision, err)
	}
	list[0].GetMetadata().Revision = int64(item.Revision)
	return list[0], nil
}

func (n *snapshot) put(r rollout.Resource) {
	switch r := r.(type) {
	case *rollout.Config:
		n.config = r
	case *rollout.Version:
		n.version = r
	}
}

// decide sets what hosts are told with these resources.
func (s *Stored) decide(n *snapshot) (err error) {
	answer := s.opts.Base
	if n.version == nil {
		// The mode holds for the version of the releases too.
		answer.AutoUpdate = answer.AutoUpdate && rollout.EffectiveMode(n.config, nil) == rollout.Enabled
		n.answer, err = served(answer)
		return err
	}
	told := rollout.Decide(n.config, n.version)
	answer.Version = string(told.AgentVersion)
	answer.AutoUpdate = told.AutoUpdate && s.opts.Base.AutoUpdate
	if answer.Edition, n.unclear = s.edition(answer.Version); n.unclear != nil {
		// What came into the folder meanwhile must not keep anybody from
		// stopping updates.
		before := s.current.Load()
		if before == nil || before.answer.Version != answer.Version {
			return n.unclear
		}
		answer.Edition = before.answer.Edition
	}
	n.answer, err = served(answer)
	return err
}

func (s *Stored) edition(v string) (version.Edition, error) {
	if s.opts.Edition != "" || s.opts.Releases == nil {
		return cmp.Or(s.opts.Edition, s.opts.Base.Edition), nil
	}
	_, edition, err := s.opts.Releases.Complete(v, "")
	if err != nil {
		return "", fmt.Errorf(`%w, by "teleport-find serve --edition" or TELEPORT_FIND_EDITION in /etc/default/teleport-find`, err)
	}
	return cmp.Or(edition, s.opts.Base.Edition), nil
}

func (s *Stored) report(n *snapshot) {
	a := n.answer
	s.opts.Log.Info("answer", "agent_version", a.Version, "edition", a.Edition, "autoupdate", a.AutoUpdate, "jitter", a.Jitter,
		"from_store", n.version != nil)
	if s.lacks(a) {
		s.opts.Log.Warn(noTarball, "agent_version", a.Version, "edition", a.Edition)
	}
}

const noTarball = "there is no tarball of this version and edition in the releases folder"

// lacks reports whether hosts are told a version that the releases do not have.
func (s *Stored) lacks(a find.Answer) bool {
	return s.opts.Releases != nil && a.Version != "" && !s.opts.Releases.Has(a.Version, a.Edition)
}
