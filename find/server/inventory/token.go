package inventory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teleport-update/find/fleet"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const tokenPrefix = "agents/token/"

// token is a join token in the store, under its name. If the name is used again, the old token moves to its
// reference: its hosts stay in its groups.
type token struct {
	parts.IssuedToken
	// ID identifies one of several tokens of a name. It is empty if an earlier version made the token.
	ID     string   `json:"id,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// MaxHosts is how many hosts may have joined by it. 0 means as many as there is room for, in a token
	// that an earlier version made.
	MaxHosts int `json:"max_hosts,omitempty"`

	revision store.Revision
}

// referenceMark is between the name of a token and its id. No name contains it.
const referenceMark = "#"

// referenceOf returns the reference to a token in the records of its hosts.
func referenceOf(name, id string) string {
	if id == "" {
		return name
	}
	return name + referenceMark + id
}

// joinedBy returns the token of a reference. It returns false if the token is lost, so that nobody knows its groups.
func joinedBy(reference string, tokens map[string]token) (t token, ok bool) {
	name, id, _ := strings.Cut(reference, referenceMark)
	if t = tokens[name]; t.ID == id {
		return t, true
	}
	if old, there := tokens[name+referenceMark+id]; there {
		return old, true
	}
	return t, id == "" // a server of an earlier version may have written the host's record
}

// TokenName returns the name of the token by which a host has joined.
func TokenName(e *fleet.Entry) string { return nameOf(e.Token) }

// nameOf returns the name in a reference.
func nameOf(reference string) string {
	name, _, _ := strings.Cut(reference, referenceMark)
	return name
}

// allows returns why a host of a group cannot use the token, or nil. It also limits
// hosts that have joined by it already, even after the token was revoked.
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

// digestOf returns the first half of the SHA-256 of a host's secret. The secret has 256
// random bits, so nobody finds another one with the same half.
func digestOf(secret string) [16]byte {
	sum := sha256.Sum256([]byte(secret))
	return [16]byte(sum[:16])
}

// ErrToken is the error of a join with an unknown token.
var ErrToken = errors.New("there is no such join token: it was never made, was revoked, or has expired")
