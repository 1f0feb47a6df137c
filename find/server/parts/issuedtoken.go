package parts

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
)

// IssuedToken is the record of a token that a person gets once: a join token of hosts, or an
// access token. The token itself is not kept.
type IssuedToken struct {
	Hash    string    `json:"sha256,omitempty"` // in hex; empty if the token was revoked
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created"`
	By      string    `json:"created_by"`
}

// MaxTokens bounds, for each kind, how many tokens people can make by mistake.
const MaxTokens = 1000

var tokenName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// IssueToken makes a token that begins with a mark, so that people recognize it in the wrong place. It expires
// after a duration; if that is empty, never. An invalid name or duration is a *RefusedError.
func IssueToken(mark, name, expiresIn, by string, now time.Time) (secret string, t IssuedToken, err error) {
	life, err := time.ParseDuration(expiresIn)
	switch {
	case !tokenName.MatchString(name):
		return "", t, Refusef("the name %.80q of a token is not one of a-z, 0-9, dots, dashes and underscores, at most 64", name)
	case expiresIn != "" && (err != nil || life <= 0):
		return "", t, Refusef("a token expires in a duration such as 24h, not %.40q", expiresIn)
	}
	secret = mark + strings.ToLower(rand.Text())
	t = IssuedToken{Hash: HashOfToken(secret), Created: now.UTC().Truncate(time.Second), By: by}
	if expiresIn != "" {
		t.Expires = t.Created.Add(life)
	}
	return secret, t, nil
}

// HashOfToken returns the hash for the record of a token.
func HashOfToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Holds reports whether a hash matches the token, and the token has not expired. It takes the
// same time for every hash.
func (t IssuedToken) Holds(hash string, now time.Time) bool {
	return subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 1 && (t.Expires.IsZero() || now.Before(t.Expires))
}
