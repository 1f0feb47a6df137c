package adminapi

import (
	"time"
)

// Tokens are the join tokens, in the order of their names.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// Token is a join token, without the token itself.
type Token struct {
	Name    string    `json:"name"`
	Groups  []string  `json:"groups,omitempty"` // allowed groups; none: all
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Created time.Time `json:"created"`          //
	By      string    `json:"created_by"`       // such as "uid 0"
	Hosts   int       `json:"hosts"`            // that joined by it and are known
	// MaxHosts is how many hosts may have joined by it; 0: as many as there is room for, if an older version
	// made the token.
	MaxHosts int    `json:"max_hosts,omitempty"`
	Token    string `json:"token,omitempty"` // only in the answer to POST: it is stored nowhere
}

// TokenRequest asks for a new join token.
type TokenRequest struct {
	Name      string   `json:"name" yaml:"name"`
	Groups    []string `json:"groups,omitempty" yaml:"groups"`
	ExpiresIn string   `json:"expires_in,omitempty" yaml:"expires_in"` // a duration such as 24h; empty: never
	MaxHosts  int      `json:"max_hosts,omitempty" yaml:"max_hosts"`   // that may have joined by it; 0: 100,000
}
