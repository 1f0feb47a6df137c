package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Archive is a whole store at one moment.
type Archive struct {
	ID       string
	Revision Revision
	History  []HistoryEntry // the newest first
	// Each calls f for all items, in the order of their keys, until it returns an error.
	Each func(f func(Archived) error) error
}

// Archived is an item and the time at which it expires; the zero time for never.
type Archived struct {
	Item
	Expires time.Time
}

// Movable is a store that can be moved to another kind of store, and back.
type Movable interface {
	// Export calls f with the whole store. The archive is valid until f returns.
	Export(ctx context.Context, f func(Archive) error) error
	// Import puts an archive into a store that has never held anything, as one change: after an error the store is empty.
	// For another store it returns ErrNotEmpty. Afterwards the store has the archive's identity and items, and begins a
	// new epoch.
	Import(ctx context.Context, a Archive) error
}

// ErrNotEmpty means that a store is in use.
var ErrNotEmpty = errors.New("it holds something already, or has: name an empty one")

// Copy copies a whole store to an empty one, or nothing.
func Copy(ctx context.Context, from, to Movable) error {
	if err := from.Export(ctx, func(a Archive) error { return to.Import(ctx, a) }); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return nil
}
