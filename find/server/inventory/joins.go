package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// UsualHosts is how many hosts may join by a token by default.
const UsualHosts = 100_000

// FullError is the error of a join without room for the host. Nothing was written.
type FullError struct{ why string }

func (e *FullError) Error() string { return e.why }

// mayJoin returns why there is no room for a host, or nil. known says that the host has joined before, same
// that it did so by this token.
func (f *Fleet) mayJoin(name string, t token, known, same bool, now time.Time) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	joined := f.table.JoinedBy(referenceOf(name, t.ID))
	switch {
	case !known && f.table.Len() >= MaxHosts:
		return &FullError{fmt.Sprintf("%d hosts have joined, and there is no room for more", f.table.Len())}
	case t.MaxHosts > 0 && joined >= t.MaxHosts && !(known && same):
		return &FullError{fmt.Sprintf("the join token %s is for %d hosts, and as many have joined by it; make another one "+
			"(\"teleport-find token add NAME --hosts N\")", name, t.MaxHosts)}
	case f.keep.joined.reached(name, now):
		return errJoins
	}
	return nil
}

// removedBefore fills in the failure and the revision of a host that people have removed, from the store.
func (f *Fleet) removedBefore(ctx context.Context, e *fleet.Entry) error {
	item, err := f.opts.Store.Get(ctx, HostKey(e.ID))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	left, _, removed, err := decodeHost(item)
	if err != nil || !removed {
		return err // a host that has joined at another server meanwhile is a conflict
	}
	e.Failed, e.Revision = left.Failed, left.Revision
	return nil
}

// ErrKnown is the error of a second join of a host.
var ErrKnown = errors.New("a host with this host_id has joined already, with another secret: if it is this one, " +
	"\"teleport-find token revoke-host\" lets it join again; if not, two machines have one host_uuid")

// findToken returns the name of a token and the token, or ErrToken.
func (f *Fleet) findToken(secret string, now time.Time) (string, token, error) {
	hash := parts.HashOfToken(secret)
	f.mu.RLock()
	defer f.mu.RUnlock()
	name := ""
	for n, t := range f.tokens { // all of them, so that the time does not depend on the token
		if t.Holds(hash, now) {
			name = n
		}
	}
	if name == "" {
		return "", token{}, ErrToken
	}
	return name, f.tokens[name], nil
}

// joinRequest is the body of a join; see find.Join.
type joinRequest struct {
	HostID     string `yaml:"host_id"`
	SecretHash string `yaml:"secret_sha256"`
	Group      string `yaml:"group"`
	Hostname   string `yaml:"hostname"`
}

// join makes a host known, durably. A known host may join only with its present secret.
func (f *Fleet) join(ctx context.Context, secret string, j joinRequest) error {
	if err := f.waitLoaded(ctx); err != nil {
		return err
	}
	f.keep.joining.Lock()
	defer f.keep.joining.Unlock()
	for attempt := 1; ; attempt++ {
		if err := f.Sync(ctx); err != nil { // others may have revoked the token, or taken the host
			return err
		}
		err := f.joinOnce(ctx, secret, j)
		conflict, is := errors.AsType[*store.ConflictError](err)
		if !is || attempt == parts.Attempts {
			return err
		}
		if err := f.settle(ctx, conflict); err != nil {
			return err
		}
	}
}

func (f *Fleet) joinOnce(ctx context.Context, secret string, j joinRequest) error {
	now := f.opts.Clock()
	name, t, err := f.findToken(secret, now)
	if err == nil {
		err = t.allows(j.Group)
	}
	if err != nil {
		return err
	}
	id, _ := rollout.ParseUUID(j.HostID)
	hash, err := hex.DecodeString(j.SecretHash)
	if err != nil || len(hash) != sha256.Size {
		return errors.New("secret_sha256: it is not the SHA-256 of a secret in hex")
	}
	e := fleet.Entry{Host: rollout.Host{ID: id, FirstSeen: now}}
	f.mu.RLock()
	known := f.table.Get(id, &e)
	f.mu.RUnlock()
	switch {
	case known && e.Secret == [16]byte(hash):
		return nil
	case known && e.Secret != [16]byte{}:
		return ErrKnown
	}
	reference := referenceOf(name, t.ID)
	// Nothing is written if there is no room.
	if err := f.mayJoin(name, t, known, e.Token == reference, now); err != nil {
		return err
	}
	if !known {
		if err := f.removedBefore(ctx, &e); err != nil {
			return err
		}
	}
	// The earlier reports of a host that comes back stay, above all its failure.
	e.Secret, e.Token, e.Hostname = [16]byte(hash), reference, j.Hostname
	e.Sequence, e.Floor = 0, 0
	f.mu.Lock()
	e.Group = f.words.fitWord(fleet.Group, j.Group, e.Group, id, now)
	f.mu.Unlock()
	// The token must not have changed since it was read.
	revisions, err := f.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{
		{Key: tokenPrefix + name, Based: t.revision, Do: store.Keep},
		{Key: HostKey(id), Value: encodeHost(&e, nil), Based: store.Revision(e.Revision)},
	}})
	if err != nil {
		return err
	}
	e.Revision = int64(revisions[1])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep.joined.add(name, now)
	f.table.Put(&e)
	return nil
}
