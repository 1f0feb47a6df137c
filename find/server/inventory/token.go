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

// token is a join token as it is kept, under its name. Once the name is used again it is kept under its reference:
// hosts that have joined by it stay in its groups.
type token struct {
	parts.IssuedToken
	// ID tells tokens of one name apart; empty for one that an earlier version has made.
	ID     string   `json:"id,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// MaxHosts is how many hosts may have joined by it; 0: as many as there is room for, of a token that an
	// earlier version has made.
	MaxHosts int `json:"max_hosts,omitempty"`

	revision store.Revision
}

// referenceMark parts the name of a token and its id: no name has it.
const referenceMark = "#"

// referenceOf is what a host's record has of the token that it has joined by.
func referenceOf(name, id string) string {
	if id == "" {
		return name
	}
	return name + referenceMark + id
}

// joinedBy returns the token of a reference, of those that are there; false if it is lost, and nobody knows its groups.
func joinedBy(reference string, tokens map[string]token) (t token, ok bool) {
	name, id, _ := strings.Cut(reference, referenceMark)
	if t = tokens[name]; t.ID == id {
		return t, true
	}
	if old, there := tokens[name+referenceMark+id]; there {
		return old, true
	}
	return t, id == "" // a server of an earlier version may have written the record of the host
}

// TokenName returns the name of the token that a host has joined by.
func TokenName(e *fleet.Entry) string { return nameOf(e.Token) }

// nameOf returns the name in a reference.
func nameOf(reference string) string {
	name, _, _ := strings.Cut(reference, referenceMark)
	return name
}

// allows returns why a host of a group cannot use the token, nil if it can. It
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
