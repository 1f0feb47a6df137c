package adminapi

import (
	"slices"
)

// Role is what the bearer of an access token may do. Each may do what those before it may.
type Role string

// The roles, from the least to the most.
const (
	Viewer       Role = "viewer"        // look at everything
	Operator     Role = "operator"      // and give orders to groups
	VersionAdmin Role = "version-admin" // and write autoupdate_version
	ConfigAdmin  Role = "config-admin"  // and write autoupdate_config, make join tokens, revoke hosts
	// Local is whoever opens the socket: it alone makes access tokens.
	Local Role = "local"
)

// Roles are those that an access token can have.
var Roles = []Role{Viewer, Operator, VersionAdmin, ConfigAdmin}

// May reports whether a role includes another one.
func (r Role) May(needed Role) bool {
	all := append(slices.Clone(Roles), Local)
	return slices.Contains(all, r) && slices.Index(all, r) >= slices.Index(all, needed)
}
