package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Resources are the resources of a store at one moment. Missing ones are nil.
type Resources struct {
	items     []store.Item // all other fields are made from these
	Config    *rollout.Config
	Version   *rollout.Version
	Rollout   *rollout.Rollout
	Overrides rollout.Overrides
	Revisions map[string]store.Revision // only of existing resources
}

// OrderOf returns the order that holds for a host at a moment.
func (n *Resources) OrderOf(h *rollout.Host, now time.Time) (rollout.Override, bool) {
	r := n.Rollout
	if n.Version == nil || r != nil && !r.Of(n.Version) {
		r = nil
	}
	return n.Overrides.Of(h.ID, h.Group, r, now)
}

// ReadResources returns the present resources of a store.
func ReadResources(ctx context.Context, s store.Store) (Resources, error) {
	items, err := ReadItems(ctx, s)
	if err != nil {
		return Resources{}, err
	}
	return ParseResources(items)
}

// Kinds are the resources that a snapshot is made of.
var Kinds = []string{rollout.KindConfig, rollout.KindVersion, rollout.KindRollout}

// resourcePrefix begins the keys of these resources and of the reports. If a kind has
// only one resource, its key is the name of the kind.
const resourcePrefix = "autoupdate_"

// overridesKey is the key of the orders to single hosts.
const overridesKey = resourcePrefix + "host_overrides"

// ReadItems returns the items of Kinds, and the orders to hosts, at one moment.
func ReadItems(ctx context.Context, s store.Store) ([]store.Item, error) {
	items, _, err := readItems(ctx, s)
	return items, err
}

// readItems is ReadItems, and also returns the revision of the store.
func readItems(ctx context.Context, s store.Store) ([]store.Item, store.Revision, error) {
	items, at, err := s.List(ctx, resourcePrefix)
	return slices.DeleteFunc(items, func(i store.Item) bool { return !slices.Contains(Kinds, i.Key) && i.Key != overridesKey }), at, err
}

// readWritten returns the rollout and all resources that people write, at one moment.
func readWritten(ctx context.Context, s store.Store) ([]store.Item, error) {
	items, _, err := s.List(ctx, resourcePrefix)
	return slices.DeleteFunc(items, func(i store.Item) bool { return !slices.Contains(Kinds, i.Key) && !isNotify(i.Key) }), err
}

func isNotify(key string) bool { return strings.HasPrefix(key, rollout.NotifyKey("")) }

// ParseResources returns resources that were read from a store.
func ParseResources(items []store.Item) (Resources, error) {
	n := Resources{items: items, Revisions: make(map[string]store.Revision)}
	for _, item := range items {
		n.Revisions[item.Key] = item.Revision
		if item.Key == overridesKey {
			if err := json.Unmarshal(item.Value, &n.Overrides); err != nil {
				return Resources{}, fmt.Errorf("the store's %s, revision %d, cannot be understood: %w", item.Key, item.Revision, err)
			}
			continue
		}
		r, err := parseStored(item)
		if err != nil {
			return Resources{}, err
		}
		n.put(r)
	}
	return n, nil
}

func parseStored(item store.Item) (rollout.Resource, error) {
	list, err := rollout.Parse(item.Value)
	if err == nil && (len(list) != 1 || list[0].GetKind() != item.Key && rollout.Key(list[0]) != item.Key) {
		err = fmt.Errorf("it is another resource")
	}
	if err != nil {
		return nil, fmt.Errorf("the store's %s, revision %d, is not one that this version understands: %w", item.Key, item.Revision, err)
	}
	list[0].GetMetadata().Revision = int64(item.Revision)
	return list[0], nil
}

func (n *Resources) put(r rollout.Resource) {
	switch r := r.(type) {
	case *rollout.Config:
		n.Config = r
	case *rollout.Version:
		n.Version = r
	case *rollout.Rollout:
		n.Rollout = r
	}
}
