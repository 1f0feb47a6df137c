package inventory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const tokenPrefix = "agents/token/"

// token is a join token as it is kept.
type token struct {
	parts.IssuedToken
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
