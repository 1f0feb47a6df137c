package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const (
	accessPrefix = "access/"
	accessMark   = "teleport-find-access-"
	// accessAge is the longest time for which tokens are cached: a revocation at another
	// server holds after it.
	accessAge = time.Second
)

// accessToken is a token in the store.
type accessToken struct {
	parts.IssuedToken
	Role adminapi.Role `json:"role"`

	name     string
	revision store.Revision
}

// Access checks access tokens in the store. They allow use of the admin API over TCP.
type Access struct {
	store store.Store
	clock func() time.Time

	mu     sync.Mutex
	tokens []accessToken
	read   time.Time // of the system's clock
}

// NewAccess returns the tokens of a store.
func NewAccess(s store.Store, clock func() time.Time) *Access { return &Access{store: s, clock: clock} }

func (a *Access) load(ctx context.Context) ([]accessToken, error) {
	items, _, err := a.store.List(ctx, accessPrefix)
	if err != nil {
		return nil, err
	}
	var tokens []accessToken
	for _, item := range items {
		t := accessToken{name: strings.TrimPrefix(item.Key, accessPrefix), revision: item.Revision}
		if err := json.Unmarshal(item.Value, &t); err != nil {
			return nil, fmt.Errorf("the store's %s, revision %d, is no access token: %w", item.Key, item.Revision, err)
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// ErrAccess is the error of a request without a valid token.
var ErrAccess = errors.New("there is no such access token: it was never made, was revoked, or has expired")

// Holder returns the name and the role of a token, or ErrAccess.
func (a *Access) Holder(ctx context.Context, secret string) (name string, role adminapi.Role, err error) {
	if !looksIssued(secret) {
		return "", "", ErrAccess
	}
	return a.HolderOf(ctx, parts.HashOfToken(secret))
}

// looksIssued tells tokens from other texts, so that no other text is hashed.
func looksIssued(secret string) bool {
	return strings.HasPrefix(secret, accessMark) && len(secret) < 200
}

// HolderOf is Holder for the hash of a token, by parts.HashOfToken: a caller that checked the token once need not
// keep it.
func (a *Access) HolderOf(ctx context.Context, hash string) (name string, role adminapi.Role, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// The store is read once a second at most, however many ask.
	if time.Since(a.read) > accessAge {
		tokens, err := a.load(ctx)
		if err != nil {
			return "", "", err
		}
		a.tokens, a.read = tokens, time.Now()
	}
	now := a.clock()
	for _, t := range a.tokens { // all of them, so that the time does not depend on the token
		if t.Holds(hash, now) {
			name, role = t.name, t.Role
		}
	}
	if name == "" {
		return "", "", ErrAccess
	}
	return name, role, nil
}

// List returns the tokens, in the order of their names.
func (a *Access) List(ctx context.Context) ([]adminapi.AccessToken, error) {
	tokens, err := a.load(ctx)
	list := []adminapi.AccessToken{}
	for _, t := range tokens {
		list = append(list, t.shown())
	}
	return list, err
}

func (t accessToken) shown() adminapi.AccessToken {
	return adminapi.AccessToken{Name: t.name, Role: t.Role, Expires: t.Expires, Created: t.Created, By: t.By}
}

// Add makes a token, which is only in the answer; a dry run makes none. A request that cannot be granted is
// a *RefusedError.
func (a *Access) Add(ctx context.Context, r adminapi.AccessRequest, audit store.Audit, dryRun bool) (made adminapi.AccessToken, err error) {
	tokens, err := a.load(ctx)
	if err != nil {
		return made, err
	}
	secret, kept, err := parts.IssueToken(accessMark, r.Name, r.ExpiresIn, audit.Who, a.clock())
	switch {
	case err != nil:
		return made, err
	case slices.ContainsFunc(tokens, func(t accessToken) bool { return t.name == r.Name }):
		return made, parts.Refusef("the access token %s exists already: revoke it, or choose another name", r.Name)
	case !slices.Contains(adminapi.Roles, r.Role):
		return made, parts.Refusef("the role %.40q is not one of %v", r.Role, adminapi.Roles)
	case len(tokens) >= parts.MaxTokens:
		return made, parts.Refusef("there are %d access tokens already", len(tokens))
	}
	t := accessToken{IssuedToken: kept, Role: r.Role, name: r.Name}
	made = t.shown()
	if dryRun {
		return made, nil
	}
	made.Token = secret
	value, err := json.Marshal(t)
	if err != nil {
		return made, err
	}
	audit.What = fmt.Sprintf("token add %s, %s", r.Name, r.Role)
	return made, a.commit(ctx, audit, store.Write{Key: accessPrefix + r.Name, Value: value})
}

// Revoke ends the validity of a token, except in a dry run. If there is no such token, the error is
// store.ErrNotFound.
func (a *Access) Revoke(ctx context.Context, name string, audit store.Audit, dryRun bool) error {
	tokens, err := a.load(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(tokens, func(t accessToken) bool { return t.name == name })
	if at < 0 {
		return store.ErrNotFound
	}
	if dryRun {
		return nil
	}
	audit.What = "token revoke --access " + name
	return a.commit(ctx, audit, store.Write{Key: accessPrefix + name, Based: tokens[at].revision, Do: store.Remove})
}

func (a *Access) commit(ctx context.Context, audit store.Audit, w store.Write) error {
	_, err := a.store.Commit(ctx, store.Change{Audit: audit, Writes: []store.Write{w}})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read = time.Time{} // this server applies it at once
	return err
}
