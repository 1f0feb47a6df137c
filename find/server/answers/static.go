package answers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
)

// StaticOptions are the settings of a Static.
type StaticOptions struct {
	// Base is the answer for all settings that the file does not change.
	Base find.Answer
	// GroupsFile names the file with the answers of groups; empty: none.
	GroupsFile string
	// Releases, when not nil, is searched for each version in the answers, to warn
	// about a missing one.
	Releases *files.Releases
	Log      *slog.Logger
}

// Static is an Answerer without a memory or a plan: each group has an answer, from a
// file that can be edited while the server runs. An answer without a version never has
// AutoUpdate.
type Static struct {
	opts    StaticOptions
	current atomic.Pointer[groupAnswers]

	loading sync.Mutex
	file    parts.WatchedFile
}

type groupAnswers struct {
	other  find.Answer
	groups map[string]find.Answer
}

// NewStatic returns a Static that has read its file, or the error in it.
func NewStatic(opts StaticOptions) (*Static, error) {
	s := &Static{opts: opts, file: parts.WatchedFile{Path: opts.GroupsFile}}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Answer returns the answer for a group; the host makes no difference.
func (s *Static) Answer(group, _ string) find.Answer {
	current := s.current.Load()
	if answer, ok := current.groups[group]; ok {
		return answer
	}
	return current.other
}

// Reload reads the file again. After an error the answers stay as they were.
func (s *Static) Reload() error {
	s.loading.Lock()
	defer s.loading.Unlock()
	next, err := s.load()
	if err != nil {
		return err
	}
	s.current.Store(next)
	s.report(next)
	return nil
}

// Watch takes up edits of the file until ctx ends, once they are complete. An edit with an error in it is
// logged once.
func (s *Static) Watch(ctx context.Context, every time.Duration) {
	s.file.Watch(ctx, every, func() {
		if err := s.Reload(); err != nil {
			s.opts.Log.Error("the groups file cannot be used, answers stay as they were", "error", err)
		}
	})
}

func (s *Static) load() (*groupAnswers, error) {
	var groups map[string]override
	if path := s.opts.GroupsFile; path != "" {
		data, err := s.file.Read()
		if err != nil {
			return nil, fmt.Errorf("read the groups file: %w", err)
		}
		if groups, err = parseGroups(data); err != nil {
			return nil, fmt.Errorf("groups file %s: %w", path, err)
		}
	}
	base := groups[defaultGroup].apply(s.opts.Base)
	next := &groupAnswers{groups: make(map[string]find.Answer, len(groups))}
	var err error
	if next.other, err = served(base); err != nil {
		return nil, err
	}
	for name, group := range groups {
		if next.groups[name], err = served(group.apply(base)); err != nil {
			return nil, fmt.Errorf("group %q: %w", name, err)
		}
	}
	next.groups[defaultGroup] = next.other
	return next, nil
}

// served returns the answer as hosts get it.
func served(a find.Answer) (find.Answer, error) {
	if a.Version == "" {
		a.AutoUpdate = false
	}
	return a, a.Check()
}

func (s *Static) report(a *groupAnswers) {
	for _, name := range slices.Sorted(maps.Keys(a.groups)) {
		answer := a.groups[name]
		s.opts.Log.Info("answer", "group", name, "agent_version", answer.Version, "edition", answer.Edition,
			"autoupdate", answer.AutoUpdate, "jitter", answer.Jitter)
		if s.opts.Releases != nil && answer.Version != "" && !s.opts.Releases.Has(answer.Version, answer.Edition) {
			s.opts.Log.Warn(noTarball,
				"group", name, "agent_version", answer.Version, "edition", answer.Edition)
		}
	}
}
