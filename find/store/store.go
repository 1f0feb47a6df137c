// Package store is where the find server keeps its resources: values under keys,
// each with the revision of its last change.
//
// A store has one revision that grows by one with every change of an item. A change
// names the revision that it is based on, and is refused with a *ConflictError
// when the value has changed since: any number of servers may write to one store,
// and none of them undoes what another has done.
//
// A change that was acknowledged is on stable storage. One that was interrupted,
// whether by a kill or by a power cut, is there as a whole or not at all.
//
// A change that says who makes it and why leaves an entry of the history for each item that it
// changes, in the same transaction: there is no change without its record, and no
// record of what did not happen.
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
	// Get returns what is under the key, or ErrNotFound.
	Get(ctx context.Context, key string) (Item, error)
	// List returns all items whose keys start with the prefix, in the order of
	// their keys, and the revision of the store they are of: one moment.
	List(ctx context.Context, prefix string) ([]Item, Revision, error)
	// Scan calls f for each item whose key starts with the prefix, in the order of
	// their keys, until it returns false. It is for what is too much to be in memory
	// at once: f must not use the store. It returns the revision that all of them
	// are of.
	Scan(ctx context.Context, prefix string, f func(Item) bool) (Revision, error)
	// Changes returns items whose keys start with the prefix and that have changed
	// since a revision, in the order of their changes, at most limit, and after them those that were removed and
	// are not there again: they have no value, and Removed. It also returns the revision up to which these are
	// all, to go on from: changes of others are not looked at twice. Whoever has another Identity, or a revision
	// that is larger than the one that this returns, has read another store before and has to read all again; so
	// has who gets ErrTooOld.
	Changes(ctx context.Context, prefix string, since Revision, limit int) ([]Item, Revision, error)
	// Put sets the value under the key and returns its new revision. based is
	// the revision of the item that the caller has seen, None where it has
	// seen that there is none; anything else there is a *ConflictError.
	Put(ctx context.Context, key string, value []byte, based Revision) (Revision, error)
	// Commit makes all writes of a change or, after an error, none. It returns
	// the revision of each item after it: None of one that was removed. After an
	// *UnknownError nobody knows whether the change was made.
	Commit(ctx context.Context, c Change) ([]Revision, error)
	// Delete removes the item that has the revision based; where it has
	// another or is not there, that is a *ConflictError.
	Delete(ctx context.Context, key string, based Revision) error
	// Purge removes the items that have expired by then, and returns how many
	// these were. Until it is called, what has expired is still there.
	Purge(ctx context.Context, now time.Time) (int, error)
	// Identity returns which store this is.
	Identity(ctx context.Context) (Identity, error)
	// Now returns the time by the store's own clock: it is the same for all servers.
	Now(ctx context.Context) (time.Time, error)
	// History returns the newest records, the newest first; at most limit.
	History(ctx context.Context, limit int) ([]HistoryEntry, error)
}

// Revision orders the changes of one store. No two changes have the same one, not
// even of a key that was deleted and made again.
type Revision int64

// None is the revision of what is not there.
const None Revision = 0

// Item is a value and where it is.
type Item struct {
	Key      string
	Value    []byte
	Revision Revision
	// Removed says that the item is not there any more; see Changes.
	Removed bool
}

// Identity tells stores apart. Items that were read from a store with another Identity may
// not be valid in this one.
type Identity struct {
	// ID is made with the store. Its copies have it, too.
	ID string
	// Epoch is another one once something else is there than was before, such as a copy that was put in the
	// place of the store, or a standby that was promoted. It has a meaning within one process only.
	Epoch int64
}

// Change is several writes that belong together.
type Change struct {
	Writes []Write
	// Audit says who makes the change and why. Where its Who is empty the
	// change leaves no record: a count that was refreshed is nobody's decision.
	Audit Audit
	// Deadline is the time, by the store's own clock, after which the change is not made any more but is ErrLate: what it
	// was computed from is too old then, however long its server was paused. Zero is none.
	Deadline time.Time
	// Of is the store that the revisions in Based were read of. Where another one has taken its place, or a copy of it, the
	// change is not made but is ErrReplaced: a revision there may be that of something else. Zero is any store.
	Of Identity
}

// Records reports whether a write of the change leaves an entry of the history.
func (c Change) Records(w Write) bool {
	return c.Audit.Who != "" && w.Do != Keep && !w.Unrecorded
}

// Write is what becomes of one item, which must have the revision Based: None
// where there must be none.
type Write struct {
	Key   string
	Value []byte // of Set
	Based Revision
	Do    Do
	// Expires is when Purge may remove the item; zero for never.
	Expires time.Time
	// Unrecorded leaves no HistoryEntry of this item, whatever the change says: another item of
	// the change has one that says it all.
	Unrecorded bool
}

// Do is what a write does.
type Do int

// What a write does. Keep changes nothing: it makes a change depend on an item
// that it does not change.
const (
	Set Do = iota
	Remove
	Keep
)

// Audit is what people want to know of a change.
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
	// MaxHistory is how many records are kept: years of decisions, and some
	// megabytes.
	MaxHistory = 10_000
	// MaxRemoved is for how many items it is known that they were removed, and when.
	MaxRemoved = 100_000
	// EpochStep is what the revision of a store grows by when an older one takes its place: no
	// change after it has a revision that somebody has seen before for another one.
	EpochStep = Revision(1) << 32
	// FailoverKey is the Key of the record that a database leaves of a failover: From is the last revision that the standby
	// had received, To is where the new epoch begins.
	FailoverKey = "database"
)

// ErrTooOld says that a store does not know any more what was removed since a revision.
var ErrTooOld = errors.New("the store does not know any more what was removed since then")

// ErrLate says that a change came after its deadline, and that nothing was changed.
var ErrLate = errors.New("the change came after its deadline, and is not in the store")

// ErrReplaced says that the store is not the one that a change was made for, and that nothing was changed. Who gets it
// reads all again.
var ErrReplaced = errors.New("another store, or a copy, has taken the place of the one that the change is for")

// UnknownError is the error of a change whose store went away while it was being made. Who reads the items again sees
// whether it was.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string {
	return "it is not known whether the change was made, look at what is there: " + e.Err.Error()
}

func (e *UnknownError) Unwrap() error { return e.Err }

// ErrNotFound says that there is nothing under a key.
var ErrNotFound = errors.New("it is not there")

// ConflictError is the error of a change that is based on an older state.
type ConflictError struct {
	Key   string
	Based Revision // what the caller had seen
	Found Revision // what is there; None for nothing
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
	// MaxValue is the largest value, in bytes. What grows with the number of
	// hosts is kept in many items.
	MaxValue = 1 << 20
)

// Check returns why no store can make such a change.
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

// CheckKey returns why no store can keep an item under such a key.
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
