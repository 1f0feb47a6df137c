package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	tokenPrefix = "agents/token/"
	tokenMark   = "teleport-find-"
)

// token is a join token as it is kept.
type token struct {
	issued
	Groups []string `json:"groups,omitempty"`
	// MaxHosts is how many hosts may have joined by it; 0: as many as there is room for, of a token that an
	// earlier version has made.
	MaxHosts int `json:"max_hosts,omitempty"`

	revision store.Revision
}

// allows returns why a host of a group cannot use the token, nil where it can. It
// holds for hosts that have joined by it too, also after the token was revoked.
func (t token) allows(group string) error {
	if len(t.Groups) == 0 || slices.Contains(t.Groups, group) {
		return nil
	}
	return &ScopeError{Group: group, Groups: t.Groups}
}

// ScopeError is the error of a host whose token is for other groups.
type ScopeError struct {
	Group  string
	Groups []string
}

func (e *ScopeError) Error() string {
	return fmt.Sprintf("the join token is for hosts of %s only, and this one is of the group %q", strings.Join(e.Groups, ", "), e.Group)
}

// digestOf is the first half of the SHA-256 of a secret of a host. The secret has
// 256 random bits, so that nobody finds another one with the same half.
func digestOf(secret string) [16]byte {
	sum := sha256.Sum256([]byte(secret))
	return [16]byte(sum[:16])
}

// ErrToken is the error of a join with a token that there is not.
var ErrToken = errors.New("there is no such join token: it was never made, was revoked, or has expired")

// ErrKnown is the error of a second join of a host.
var ErrKnown = errors.New("a host with this host_id has joined already, with another secret: if it is this one, \"teleport-find revoke\" lets it join again; if not, two machines have one host_uuid")

// find returns the name of a token, or ErrToken.
func (f *Fleet) findToken(secret string, now time.Time) (string, token, error) {
	hash := hashOfToken(secret)
	f.mu.RLock()
	defer f.mu.RUnlock()
	name := ""
	for n, t := range f.tokens { // all of them, whichever it is
		if t.holds(hash, now) {
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

// join makes a host known, durably. One that is known may join only with the secret
// that it has.
func (f *Fleet) join(ctx context.Context, secret string, j joinRequest) error {
	f.keep.joining.Lock()
	defer f.keep.joining.Unlock()
	for attempt := 1; ; attempt++ {
		if err := f.Sync(ctx); err != nil { // others may have revoked the token, or taken the host
			return err
		}
		err := f.joinOnce(ctx, secret, j)
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict || attempt == attempts {
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
	// Nothing is written of a host that there is no room for.
	if err := f.mayJoin(name, t, known, e.Token == name, now); err != nil {
		return err
	}
	if !known {
		if err := f.removedBefore(ctx, &e); err != nil {
			return err
		}
	}
	// What a host that comes back has said before stays: its failure above all.
	e.Secret, e.Token, e.Hostname, e.Sequence = [16]byte(hash), name, j.Hostname, 0
	f.mu.Lock()
	e.Group = f.fitWord(fleet.Group, j.Group, e.Group, id, now)
	f.mu.Unlock()
	// The token must be as it was when it was looked at.
	revisions, err := f.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{
		{Key: tokenPrefix + name, Based: t.revision, Do: store.Keep},
		{Key: hostKey(id), Value: encodeHost(&e), Based: store.Revision(e.Revision)},
	}})
	if err != nil {
		return err
	}
	e.Revision = int64(revisions[1])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep.joined.note(name, now)
	f.table.Put(&e)
	return nil
}

// Tokens returns the join tokens, in the order of their names.
func (f *Fleet) Tokens() []AdminToken {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := []AdminToken{}
	for _, name := range slices.Sorted(maps.Keys(f.tokens)) {
		if t := f.tokens[name]; t.Hash != "" {
			list = append(list, AdminToken{Name: name, Groups: t.Groups, MaxHosts: t.MaxHosts, Expires: t.Expires, Created: t.Created, By: t.By, Hosts: f.table.JoinedBy(name)})
		}
	}
	return list
}

// AddToken makes a join token, which is in the answer and nowhere else; in a dry run it is not made. What
// cannot be is a *RefusedError.
func (f *Fleet) AddToken(ctx context.Context, r AdminTokenRequest, audit store.Audit, dryRun bool) (AdminToken, error) {
	if err := f.Sync(ctx); err != nil {
		return AdminToken{}, err
	}
	f.mu.RLock()
	before, count := f.tokens[r.Name], len(f.tokens)
	f.mu.RUnlock()
	secret, kept, err := issue(tokenMark, r.Name, r.ExpiresIn, audit.Who, f.opts.Clock())
	bad := slices.ContainsFunc(r.Groups, func(g string) bool { return g == "" || len(g) > 200 })
	switch {
	case err != nil:
		return AdminToken{}, err
	case before.Hash != "":
		return AdminToken{}, refusef("the token %s exists already: revoke it, or choose another name", r.Name)
	case bad || len(r.Groups) > 1000:
		return AdminToken{}, refusef("the groups of a token are at most 1000 names of at most 200 bytes")
	case r.MaxHosts < 0 || r.MaxHosts > MaxHosts:
		return AdminToken{}, refusef("a token is for 1 to %d hosts, not for %d", MaxHosts, r.MaxHosts)
	case count >= maxTokens:
		return AdminToken{}, refusef("there are %d tokens already, with those that were revoked", count)
	}
	t := token{issued: kept, Groups: r.Groups, MaxHosts: cmp.Or(r.MaxHosts, UsualHosts)}
	made := AdminToken{Name: r.Name, Groups: t.Groups, MaxHosts: t.MaxHosts, Expires: t.Expires, Created: t.Created, By: t.By}
	if dryRun {
		return made, nil
	}
	made.Token = secret
	audit.What = "tokens add " + r.Name
	if err := f.writeToken(ctx, r.Name, t, before.revision, audit); err != nil {
		return AdminToken{}, err
	}
	return made, nil
}

func (f *Fleet) writeToken(ctx context.Context, name string, t token, based store.Revision, audit store.Audit) error {
	value, err := json.Marshal(t)
	if err != nil {
		return err
	}
	revisions, err := f.opts.Store.Commit(ctx, store.Change{Audit: audit, Writes: []store.Write{{Key: tokenPrefix + name, Value: value, Based: based}}})
	if err != nil {
		return err
	}
	t.revision = revisions[0]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[name] = t
	return nil
}

func refusef(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }
