package inventory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const tokenMark = "teleport-find-"

// Tokens returns the join tokens, in the order of their names.
func (f *Fleet) Tokens() []adminapi.Token {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := []adminapi.Token{}
	for _, name := range slices.Sorted(maps.Keys(f.tokens)) {
		if t := f.tokens[name]; t.Hash != "" {
			list = append(list, adminapi.Token{
				Name: name, Groups: t.Groups, MaxHosts: t.MaxHosts, Expires: t.Expires, Created: t.Created, By: t.By,
				Hosts: f.table.JoinedBy(referenceOf(name, t.ID)),
			})
		}
	}
	return list
}

// AddToken makes a join token, which is only in the answer; a dry run makes none. A request that cannot
// be granted is a *RefusedError.
func (f *Fleet) AddToken(ctx context.Context, r adminapi.TokenRequest, audit store.Audit, dryRun bool) (adminapi.Token, error) {
	if err := f.Sync(ctx); err != nil {
		return adminapi.Token{}, err
	}
	f.mu.RLock()
	before, count := f.tokens[r.Name], len(f.tokens)
	f.mu.RUnlock()
	secret, kept, err := parts.IssueToken(tokenMark, r.Name, r.ExpiresIn, audit.Who, f.opts.Clock())
	bad := slices.ContainsFunc(r.Groups, func(g string) bool { return g == "" || len(g) > 200 })
	switch {
	case err != nil:
		return adminapi.Token{}, err
	case before.Hash != "":
		return adminapi.Token{}, parts.Refusef("the token %s exists already: revoke it, or choose another name", r.Name)
	case bad || len(r.Groups) > 1000:
		return adminapi.Token{}, parts.Refusef("the groups of a token are at most 1000 names of at most 200 bytes")
	case r.MaxHosts < 0 || r.MaxHosts > MaxHosts:
		return adminapi.Token{}, parts.Refusef("a token is for 1 to %d hosts, not for %d", MaxHosts, r.MaxHosts)
	case count >= parts.MaxTokens:
		return adminapi.Token{}, parts.Refusef("there are %d tokens already, with those that were revoked", count)
	}
	t := token{IssuedToken: kept, ID: rand.Text(), Groups: r.Groups, MaxHosts: cmp.Or(r.MaxHosts, UsualHosts)}
	made := adminapi.Token{Name: r.Name, Groups: t.Groups, MaxHosts: t.MaxHosts, Expires: t.Expires, Created: t.Created, By: t.By}
	if dryRun {
		return made, nil
	}
	made.Token = secret
	audit.What = "token add " + r.Name
	written := []namedToken{{r.Name, t, before.revision}}
	if before.revision != store.None {
		written = append(written, namedToken{r.Name + referenceMark + before.ID, before, store.None})
	}
	if err := f.writeTokens(ctx, audit, written...); err != nil {
		return adminapi.Token{}, err
	}
	return made, nil
}

// namedToken is a token to be written, if the store still has its revision.
type namedToken struct {
	name  string
	token token
	based store.Revision
}

func (f *Fleet) writeTokens(ctx context.Context, audit store.Audit, list ...namedToken) error {
	change := store.Change{Audit: audit}
	for _, one := range list {
		value, err := json.Marshal(one.token)
		if err != nil {
			return err
		}
		change.Writes = append(change.Writes, store.Write{Key: tokenPrefix + one.name, Value: value, Based: one.based})
	}
	revisions, err := f.opts.Store.Commit(ctx, change)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range list {
		one.token.revision = revisions[i]
		f.tokens[one.name] = one.token
	}
	return nil
}
