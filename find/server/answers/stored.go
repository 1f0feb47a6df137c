// Package answers decides what hosts are told: from a file with groups, or from the resources of a store, which
// it reads, checks and writes for people. Hosts are answered from memory; while the store cannot be read, the
// answers stay as they were.
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
	Releases *files.Releases // may be nil
	// Clock is what windows are measured by; nil for the system's. Whoever has
	// another one, a test or a simulation, gives the same to the Engine.
	Clock func() time.Time
	// Limits bound the configurations that are applied here; what is in the store already stays in force.
	Limits rollout.Limits
	Log    *slog.Logger
}

// Stored is an Answerer that follows the resources of a store.
//
// Hosts are answered from a snapshot in memory. While the store cannot be read, or
// holds what cannot be understood, the last snapshot stays: to lose the store is
// to lose the ability to change an answer, and nothing else.
type Stored struct {
	opts    StoredOptions
	plans   *Plans
	brake   brake
	current atomic.Pointer[snapshot]

	refreshing sync.Mutex
	left       []*rollout.Rollout // rollouts with halts that others have followed, the newest first; under refreshing
	lost       []lostRollout      // rollouts with halts that the store has lost; under refreshing
	last       moment             // that current is of, or a later one at which nothing had changed; under refreshing
	confirmed  atomic.Int64       // when the store last said that current is how it is, in nanoseconds
	failing    atomic.Pointer[error]
}

// NewStored returns a Stored that has read its store, or what is wrong with it.
func NewStored(ctx context.Context, opts StoredOptions) (*Stored, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	s := &Stored{opts: opts, plans: NewPlans(opts.Store)}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Answer implements Answerer.
func (s *Stored) Answer(group, host string) find.Answer {
	return s.AnswerTo(rollout.Query{Group: group, Host: host})
}

// AnswerTo is what a host is told now.
func (s *Stored) AnswerTo(q rollout.Query) find.Answer { return s.AnswerAt(q, s.Now()) }

// AnswerAt implements QueryAnswerer.
func (s *Stored) AnswerAt(q rollout.Query, now time.Time) find.Answer {
	return s.current.Load().answer(q, now, s.opts.Base.AutoUpdate)
}

// Now implements QueryAnswerer.
func (s *Stored) Now() time.Time { return s.opts.Clock() }

// Age returns for how long nobody has known whether the answers are still those of
// the store, and why that is; nil if it was read at the last look.
func (s *Stored) Age() (time.Duration, error) {
	age := s.opts.Clock().Sub(time.Unix(0, s.confirmed.Load()))
	if failing := s.failing.Load(); failing != nil {
		return age, *failing
	}
	return age, nil
}

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
		s.writeMode(ctx)
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

func (s *Stored) refresh(ctx context.Context, again bool) error {
	before := s.current.Load()
	failing := s.failing.Load() != nil
	next, err := s.load(ctx, before, again || failing)
	if err != nil {
		if before != nil && ctx.Err() == nil {
			s.failing.Store(&err)
			if age, _ := s.Age(); !failing {
				s.opts.Log.Error("the store cannot be followed, and hosts get the answers of before",
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
	s.setUnmade(nil)
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

// Resources returns the resources that hosts are answered by now. Nobody may change them.
func (s *Stored) Resources() Resources { return s.current.Load().Resources }

// Named reports whether a group or a version is one that the configuration, the version or the rollout of the
// store has named.
func (s *Stored) Named(word string) bool { return s.current.Load().named[word] }

// editionsOf are those of the versions that hosts are told.
func (s *Stored) editionsOf(n *snapshot) map[rollout.Semver]version.Edition {
	if n.find == nil {
		return map[rollout.Semver]version.Edition{rollout.Semver(n.base.Version): n.base.Edition}
	}
	return n.editions
}

const noTarball = "there is no tarball of this version and edition, with its .sha256, in the releases folder"

// lacks reports whether a version that hosts are told is missing from the releases.
func (s *Stored) lacks(v string, e version.Edition) bool {
	return s.opts.Releases != nil && v != "" && !s.opts.Releases.Has(v, e)
}
