package adminapi

import (
	"time"
)

// AccessTokens is the list of access tokens.
type AccessTokens struct {
	Tokens []AccessToken `json:"tokens"`
}

// AccessToken is one of them. Token is only in the answer that makes it.
type AccessToken struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created"`
	By      string    `json:"created_by"`
	Token   string    `json:"token,omitempty"`
}

// AccessRequest asks for a token.
type AccessRequest struct {
	Name      string `json:"name" yaml:"name"`
	Role      Role   `json:"role" yaml:"role"`
	ExpiresIn string `json:"expires_in,omitempty" yaml:"expires_in"` // a duration; empty: never
}
