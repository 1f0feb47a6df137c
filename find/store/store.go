// Package store keeps the resources of the find server: values under keys,
// each with the revision of its last change.
//
// A store has one revision that grows by one with every change of an item. A change
// names the revision that it is based on, and is refused with a *ConflictError
// if the value has changed since: any number of servers may write to one store,
// and none of them undoes another's change.
//
// A change that was acknowledged is on stable storage. A change that was interrupted
// by a kill or a power cut is there as a whole or not at all.
//
// A change with an author and a reason leaves an entry of the history for each item that it
// changes, in the same transaction: there is no change without its record, and no
// record without its change.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Store keeps resources. Its methods may be called from several goroutines at
// once, and every other process that has the same store open sees their effects.
type Store interface {
	// Get returns the item under the key, or ErrNotFound.
	Get(ctx context.Context, key string) (Item, error)
	// List returns all items whose keys start with the prefix, in the order of their keys, and the
	// revision of the store at that one moment.
	List(ctx context.Context, prefix string) ([]Item, Revision, error)
	// Scan calls f for each item whose key starts with the prefix, in the order of their keys, until
	// it returns false. It is for more items than fit into memory at once: f must not use the store.
	// All items are of one moment; Scan returns the store's revision at it.
	Scan(ctx context.Context, prefix string, f func(Item) bool) (Revision, error)
	// Changes returns items whose keys start with the prefix and that have changed since a revision, in the
	// order of their changes, at most limit. After them come items that were removed and are not there again:
	// they have Removed and no value. It also returns the revision up to which these are all, to continue from
	// it. A caller has to read all again after ErrTooOld, and if the store's Identity has changed or the
	// caller's revision is larger than the returned one: then it has read another store before.
	Changes(ctx context.Context, prefix string, since Revision, limit int) ([]Item, Revision, error)
	// Put sets the value under the key and returns its new revision. based is the revision of the
	// item that the caller has seen, or None if the item did not exist; otherwise the error is a
	// *ConflictError.
	Put(ctx context.Context, key string, value []byte, based Revision) (Revision, error)
	// Commit makes all writes of a change or, after an error, none. It returns the new revision of
	// each item: None for a removed one. After an *UnknownError nobody knows whether the change was
	// made.
	Commit(ctx context.Context, c Change) ([]Revision, error)
	// Delete removes the item with the revision based; if it has another revision or does not exist,
	// the error is a *ConflictError.
	Delete(ctx context.Context, key string, based Revision) error
	// Purge removes the items that have expired by then, and returns their number. Until it is
	// called, expired items are still there.
	Purge(ctx context.Context, now time.Time) (int, error)
	// Identity returns the identity of this store.
	Identity(ctx context.Context) (Identity, error)
	// Now returns the time by the store's own clock: it is the same for all servers.
	Now(ctx context.Context) (time.Time, error)
	// History returns the newest records, the newest first; at most limit.
	History(ctx context.Context, limit int) ([]HistoryEntry, error)
}

// Revision orders the changes of one store. No two changes have the same one, even if a key was
// deleted and made again.
type Revision int64

// None is the revision of an item that does not exist.
const None Revision = 0

// Item is a value with its key and revision.
type Item struct {
	Key      string
	Value    []byte
	Revision Revision
	// Removed reports that the item does not exist any more; see Changes.
	Removed bool
}

// Identity distinguishes stores. Items from a store with another Identity may not be valid in this
// one.
type Identity struct {
	// ID is made with the store. Its copies have it, too.
	ID string
	// Epoch changes when other content takes the store's place, such as a copy, or a standby that was
	// promoted. It has a meaning within one process only.
	Epoch int64
}

// Change is several writes that belong together.
type Change struct {
	Writes []Write
	// Audit names the author of the change and the reason. If its Who is empty, the change leaves no
	// record: a count that was refreshed is nobody's decision.
	Audit Audit
	// Deadline is the time, by the store's own clock, after which the change is refused with ErrLate: its data is too old
	// then, however long its server was paused. Zero: no deadline.
	Deadline time.Time
	// Of is the store from which the revisions in Based were read. If another store, or a copy, has replaced it, the change
	// is refused with ErrReplaced: a revision there may belong to another change. Zero is any store.
	Of Identity
}

// Records reports whether a write of the change leaves an entry of the history.
func (c Change) Records(w Write) bool {
	return c.Audit.Who != "" && w.Do != Keep && !w.Unrecorded
}

// Write is the new state of one item, which must have the revision Based: None for an item that
// must not exist.
type Write struct {
	Key   string
	Value []byte // of Set
	Based Revision
	Do    Do
	// Expires is when Purge may remove the item; zero for never.
	Expires time.Time
	// Unrecorded leaves no HistoryEntry of this item, even in a change with an Audit: the entry of
	// another item of the change covers it.
	Unrecorded bool
}

// Do is the action of a write.
type Do int

// The actions. Keep changes nothing: it makes a change depend on an item that it does not change.
const (
	Set Do = iota
	Remove
	Keep
)

// Audit is the record of a change for people.
type Audit struct {
	Time time.Time
	Who  string // such as "uid 0", or "engine"
	What string // the command or the step
	Why  string // the reason that was given; may be empty
}

// HistoryEntry is a change of one item.
type HistoryEntry struct {
	Audit
	Key      string
	From, To Revision // From is None for a new item, To is None for a removed one
}

const (
	// MaxHistory is the number of records that are kept: years of decisions, and some megabytes.
	MaxHistory = 10_000
	// MaxRemoved is the number of removals that are kept.
	MaxRemoved = 100_000
	// EpochStep is added to the revision of a store when an older one replaces it: no later change
	// gets a revision that a reader has seen before for another change.
	EpochStep = Revision(1) << 32
	// FailoverKey is the Key of the record that a database leaves of a failover: From is the last revision that the standby
	// had received, To is the first of the new epoch.
	FailoverKey = "database"
)

// ErrTooOld means that a store has forgotten which items were removed since a revision.
var ErrTooOld = errors.New("the store does not know any more what was removed since then")

// ErrLate means that a change came after its deadline, and that nothing was changed.
var ErrLate = errors.New("the change came after its deadline, and is not in the store")

// ErrReplaced means that the store is not the one that a change was made for, and that nothing was changed. After it,
// a caller has to read all again.
var ErrReplaced = errors.New("another store, or a copy, has taken the place of the one that the change is for")

// UnknownError is the error of a change whose store went away while it was being made. A caller that reads the items
// again sees whether it was made.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string {
	return "it is not known whether the change was made, look at what is there: " + e.Err.Error()
}

func (e *UnknownError) Unwrap() error { return e.Err }

// ErrNotFound means that there is no item under a key.
var ErrNotFound = errors.New("it is not there")

// ConflictError is the error of a change that is based on an older state.
type ConflictError struct {
	Key   string
	Based Revision // the revision that the caller had seen
	Found Revision // the present revision; None for no item
}

func (e *ConflictError) Error() string {
	switch {
	case e.Based == None:
		return fmt.Sprintf("%s is there already, with revision %d", e.Key, e.Found)
	case e.Found == None:
		return fmt.Sprintf("%s of revision %d is not there any more", e.Key, e.Based)
	}
	return fmt.Sprintf("%s has changed since revision %d: it has revision %d now", e.Key, e.Based, e.Found)
}

const (
	// MaxKey is the longest key, in bytes: a kind and a name.
	MaxKey = 512
	// MaxValue is the largest value, in bytes. Data that grows with the number of hosts is kept in
	// many items.
	MaxValue = 1 << 20
)

// Check returns an error if no store can make such a change.
func (c Change) Check() error {
	for _, w := range c.Writes {
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

func (w Write) check() error {
	if err := CheckKey(w.Key); err != nil {
		return err
	}
	switch {
	case len(w.Value) > MaxValue:
		return fmt.Errorf("the value of %s is larger than %d bytes", w.Key, MaxValue)
	case w.Do == Remove && w.Based == None:
		return fmt.Errorf("delete %s: the revision of what is to go is missing", w.Key)
	}
	return nil
}

// CheckKey returns an error if no store can keep an item under such a key.
func CheckKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > MaxKey:
		return fmt.Errorf("key %.40q… is longer than %d bytes", key, MaxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("key %.40q is not plain text", key)
	}
	return nil
}
