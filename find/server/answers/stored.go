// Package answers decides on the answers to hosts, from the resources of a store. It
// reads, checks and writes these resources for people. Answers come from memory; while the store cannot be
// written or read, their version stays, and they let no host update.
package answers

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/files"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// StoredOptions are the settings of a Stored.
type StoredOptions struct {
	Store store.Store
	// Base is the answer while the store names no version. All answers have its jitter
	// and its edition unless the resources or the releases give others.
	Base find.Answer
	// Edition is the edition in every answer. If it is empty, the edition comes from
	// Releases.
	Edition  version.Edition
	Releases *files.Releases // may be nil
	// Clock is the clock for windows; nil for the system's. A test or a simulation with
	// its own clock must give the Engine the same.
	Clock func() time.Time
	// Limits bound the configurations that are applied here. A configuration already in the store
	// stays in force.
	Limits rollout.Limits
	Log    *slog.Logger
}

// Stored is an Answerer that follows the resources of a store.
//
// Answers come from a snapshot in memory. While the store cannot be written or read, or
// holds items that cannot be understood, the last snapshot stays, and no host is told to
// update: see Rest.
type Stored struct {
	opts    StoredOptions
	plans   *Plans
	current atomic.Pointer[snapshot]
	resting atomic.Pointer[Rest] // nil: hosts are let on

	refreshing sync.Mutex
	last       moment       // of current, or later without a change since; under refreshing
	confirmed  atomic.Int64 // when the store last confirmed current, in nanoseconds
	failing    atomic.Pointer[error]
}

// NewStored returns a Stored that has read its store, or why it could not.
func NewStored(ctx context.Context, opts StoredOptions) (*Stored, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	s := &Stored{opts: opts}
	s.opts.Store = &watchedStore{opts.Store, s}
	s.plans = NewPlans(s.opts.Store)
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Answer implements Answerer.
func (s *Stored) Answer(group, host string) find.Answer {
	return s.AnswerTo(rollout.Query{Group: group, Host: host})
}

// AnswerTo returns the present answer to a host.
func (s *Stored) AnswerTo(q rollout.Query) find.Answer { return s.AnswerAt(q, s.Now()) }

// AnswerAt implements QueryAnswerer.
func (s *Stored) AnswerAt(q rollout.Query, now time.Time) find.Answer {
	return s.current.Load().answer(q, now, s.mayUpdate())
}

// Now implements QueryAnswerer.
func (s *Stored) Now() time.Time { return s.opts.Clock() }

// Age returns how long ago the store last confirmed the answers, and why; the error is
// nil if the last read succeeded.
func (s *Stored) Age() (time.Duration, error) {
	age := s.opts.Clock().Sub(time.Unix(0, s.confirmed.Load()))
	if failing := s.failing.Load(); failing != nil {
		return age, *failing
	}
	return age, nil
}

// Watch takes up changes in the store until ctx ends. Trouble with the store is logged
// when it begins and when it is over.
func (s *Stored) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.Refresh(ctx) // which has logged any trouble
	}
}

// Refresh makes the answers from the store's present state. After an error they stay as
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

func (s *Stored) refresh(ctx context.Context, again bool) error {
	before := s.current.Load()
	failing := s.failing.Load() != nil
	next, err := s.load(ctx, before, again || failing)
	if err != nil {
		if before != nil && ctx.Err() == nil {
			s.failing.Store(&err)
			s.rest(err)
			if age, _ := s.Age(); !failing {
				s.opts.Log.Error("the store cannot be followed, and hosts get the versions of before",
					"error", err, "age", age.Round(time.Second), "answers", before.lines())
			}
		}
		return err
	}
	if failing {
		age, _ := s.Age()
		s.failing.Store(nil)
		s.opts.Log.Info("the store can be followed again", "after", age.Round(time.Second))
	}
	s.confirmed.Store(s.opts.Clock().UnixNano())
	if next == before {
		return nil
	}
	s.current.Store(next)
	s.report(before, next)
	return nil
}

func (s *Stored) report(before, n *snapshot) {
	if before == nil || !slices.Equal(before.lines(), n.lines()) {
		for _, l := range n.lines() {
			s.opts.Log.Info("answer", "group", l.group, "agent_version", l.version, "autoupdate", l.update,
				"edition", s.editionsOf(n)[rollout.Semver(l.version)], "jitter", n.base.Jitter, "from_store", n.Version != nil)
		}
		for v, e := range s.editionsOf(n) {
			if s.lacks(string(v), e) {
				s.opts.Log.Warn(noTarball, "agent_version", v, "edition", e)
			}
		}
	}
	for group, why := range n.broken {
		if before == nil || before.broken[group] == nil {
			s.opts.Log.Error("the plan of a group cannot be read, and none of its hosts is told to update", "group", group, "error", why)
		}
	}
}

// Plans returns the plans of the store.
func (s *Stored) Plans() *Plans { return s.plans }

// Resources returns the resources behind the present answers. Nobody may change them.
func (s *Stored) Resources() Resources { return s.current.Load().Resources }

// Named reports whether the configuration, the version or the rollout in the store has named a group or a
// version.
func (s *Stored) Named(word string) bool { return s.current.Load().named[word] }

// editionsOf returns the editions of the versions in the answers.
func (s *Stored) editionsOf(n *snapshot) map[rollout.Semver]version.Edition {
	if n.find == nil {
		return map[rollout.Semver]version.Edition{rollout.Semver(n.base.Version): n.base.Edition}
	}
	return n.editions
}

const noTarball = "there is no tarball of this version and edition, with its .sha256, in the releases folder"

// lacks reports whether a version in the answers is missing from the releases.
func (s *Stored) lacks(v string, e version.Edition) bool {
	return s.opts.Releases != nil && v != "" && !s.opts.Releases.Has(v, e)
}
