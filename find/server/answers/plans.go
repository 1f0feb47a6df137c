package answers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Plans gives access to the plans of groups in the store, and keeps those in use in
// memory. A plan never changes, so no plan is read twice.
type Plans struct {
	store store.Store

	mu     sync.Mutex
	loaded map[string]loadedPlan // by group
}

type loadedPlan struct {
	id    planID
	index *rollout.Index
}

// NewPlans returns the plans of a store.
func NewPlans(s store.Store) *Plans { return &Plans{store: s} }

// planID identifies one of the plans of a group.
type planID struct {
	version rollout.Semver
	begun   time.Time // of the rollout
	start   time.Time
	hosts   int
}

func idOf(r *rollout.Rollout, g *rollout.GroupStatus) planID {
	return planID{r.Spec.TargetVersion, r.Status.StartTime, g.Plan.StartTime, g.Plan.HostCount}
}

// is reports whether a plan is the one with this ID.
func (id planID) is(read *rollout.Plan, group string) bool {
	same := read.Group == group && read.Version == id.version
	return same && read.StartTime.Equal(id.start) && len(read.Hosts) == id.hosts
}

// Keep notes a plan that was just written: to read it again would take longer than
// to write it.
func (p *Plans) Keep(r *rollout.Rollout, ready *Prepared) {
	plan := ready.plan
	at := slices.IndexFunc(r.Status.Groups, func(g rollout.GroupStatus) bool { return g.Name == plan.Group })
	index, err := rollout.NewIndex(plan.Hosts)
	if at < 0 || err != nil {
		return // the next read will report why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded == nil {
		p.loaded = make(map[string]loadedPlan)
	}
	p.loaded[plan.Group] = loadedPlan{idOf(r, &r.Status.Groups[at]), index}
}

// pagesAtOnce is how many pages are written together: a dozen megabytes, in which a
// disk is synced once, and other writers wait for tenths of a second.
const pagesAtOnce = 128

// Load returns the plan of every active group with one, and why missing plans cannot be read. An error comes from the
// store: plans that could not be read for it, and that may be sound, are among the missing; the others are returned.
func (p *Plans) Load(ctx context.Context, r *rollout.Rollout) (found map[string]*rollout.Index, broken map[string]error, err error) {
	found, broken = make(map[string]*rollout.Index), make(map[string]error)
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := make(map[string]loadedPlan)
	defer func() { p.loaded = kept }()
	if r == nil {
		return found, broken, nil
	}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		if g.Plan == nil || g.State != rollout.Active {
			continue
		}
		id := idOf(r, g)
		plan, ok := p.loaded[g.Name]
		if !ok || plan.id != id {
			why := err // if the store is away, it is asked only once
			if err == nil {
				plan, why, err = p.read(ctx, g.Name, id)
			}
			if why != nil {
				broken[g.Name] = why // it is tried again next time
				continue
			}
		}
		kept[g.Name], found[g.Name] = plan, plan.index
	}
	return found, broken, err
}

// read returns why the plan is broken. If the store is to blame, err is the same error.
func (p *Plans) read(ctx context.Context, group string, id planID) (plan loadedPlan, broken, err error) {
	get := func(key string) ([]byte, error) {
		item, failed := p.store.Get(ctx, key)
		if failed != nil && !errors.Is(failed, store.ErrNotFound) {
			err = failed
		}
		return item.Value, failed
	}
	plan.id = id
	head, broken := get(rollout.PlanKey(group))
	if broken == nil {
		var read *rollout.Plan
		read, _, broken = rollout.ReadPlan(head, func(name string) ([]byte, error) { return get(rollout.PageKey(name)) })
		if broken == nil && !id.is(read, group) {
			broken = errors.New("it is another plan than that of the rollout")
		}
		if broken == nil {
			plan.index, broken = rollout.NewIndex(read.Hosts)
		}
	}
	return plan, broken, err
}

// Prepared is a plan in the store, still without its head.
type Prepared struct {
	plan  *rollout.Plan
	Head  store.Write   // the caller writes it with the rollout
	pages []store.Write // written, with their revisions in Based
	old   []string      // the pages of the plan that this one replaces
}

// Prepare writes the pages of a plan, from the last one on. The head is for the
// caller to write together with the rollout.
func (p *Plans) Prepare(ctx context.Context, plan *rollout.Plan, now time.Time) (*Prepared, error) {
	pages, err := plan.Pages(rand.Uint64)
	if err != nil {
		return nil, err
	}
	ready := &Prepared{plan: plan}
	old, err := p.store.Get(ctx, rollout.PlanKey(plan.Group))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		// Of a broken chain, old has the pages that were found.
		_, ready.old, _ = rollout.ReadPlan(old.Value, func(name string) ([]byte, error) {
			item, err := p.store.Get(ctx, rollout.PageKey(name))
			return item.Value, err
		})
	}
	var some []store.Write
	for page := range pages {
		write := store.Write{Key: plan.Key(page), Value: page.Value, Expires: now.Add(rollout.PlanLife)}
		isHead := page.Name == ""
		if isHead {
			write.Based = old.Revision
			ready.Head = write
		} else {
			some = append(some, write)
		}
		if len(some) == 0 || len(some) < pagesAtOnce && !isHead {
			continue
		}
		revisions, err := p.store.Commit(ctx, store.Change{Writes: some})
		if err != nil {
			return nil, errors.Join(err, p.Drop(ready))
		}
		for i, w := range some {
			w.Based, w.Value = revisions[i], nil
			ready.pages = append(ready.pages, w)
		}
		some = some[:0]
	}
	return ready, nil
}

// dropTime bounds the removal of needless pages: the caller's context may have ended.
const dropTime = 10 * time.Second

// Drop removes the pages again, since the head was not written. Pages that stay behind
// expire.
func (p *Plans) Drop(ready *Prepared) error {
	if len(ready.pages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	for i := range ready.pages {
		ready.pages[i].Do = store.Remove
	}
	if _, err := p.store.Commit(ctx, store.Change{Writes: ready.pages}); err != nil {
		return fmt.Errorf("remove pages of the plan of %s that nobody needs: %w", ready.plan.Group, err)
	}
	return nil
}

// DropOld removes the pages of the plan that was replaced.
func (p *Plans) DropOld(ctx context.Context, ready *Prepared) error {
	for _, name := range ready.old {
		item, err := p.store.Get(ctx, rollout.PageKey(name))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = p.store.Delete(ctx, item.Key, item.Revision)
		}
		if err != nil {
			return fmt.Errorf("remove pages of an old plan of %s: %w", ready.plan.Group, err)
		}
	}
	return nil
}
