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
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	// Put sets the value under the key and returns its new revision. based is
	// the revision of the item that the caller has seen, None where it has
	// seen that there is none; anything else there is a *ConflictError.
	Put(ctx context.Context, key string, value []byte, based Revision) (Revision, error)
	// PutAll is Put for several keys, all of them or, after an error, none.
	PutAll(ctx context.Context, writes []Write) ([]Revision, error)
	// Delete removes the item that has the revision based; where it has
	// another or is not there, that is a *ConflictError.
	Delete(ctx context.Context, key string, based Revision) error
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
}

// Write is what Put is told.
type Write struct {
	Key   string
	Value []byte
	Based Revision
}

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

func checkKey(key string) error {
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

func checkValue(key string, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("the value of %s is larger than %d bytes", key, MaxValue)
	}
	return nil
}
