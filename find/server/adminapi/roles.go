package adminapi

import (
	"slices"
	"strings"
)

// Right is one thing that an access token may allow.
type Right string

// The rights. Suspend allows to set a configuration's mode to suspended, unless it is
// disabled, and no other change.
const (
	Look         Right = "look"
	Command      Right = "give orders to groups"
	Suspend      Right = "suspend updates"
	WriteVersion Right = "write autoupdate_version"
	WriteConfig  Right = "write autoupdate_config"
	Admit        Right = "make join tokens and revoke hosts"
	GiveAccess   Right = "make and revoke access tokens"
)

// Role is a set of rights. Roles are no ladder: a writer of the configuration need not
// be able to write the version (Managed Updates v2 has two resources for that).
type Role string

// The roles.
const (
	Viewer       Role = "viewer"
	Operator     Role = "operator"
	VersionAdmin Role = "version-admin"
	ConfigAdmin  Role = "config-admin"
	Admin        Role = "admin"
	// Local is the role over the socket: it alone makes access tokens.
	Local Role = "local"
)

// Roles are the roles for access tokens.
var Roles = []Role{Viewer, Operator, VersionAdmin, ConfigAdmin, Admin}

var rights = map[Role][]Right{
	Viewer:       {Look},
	Operator:     {Look, Command, Suspend},
	VersionAdmin: {Look, Command, Suspend, WriteVersion},
	ConfigAdmin:  {Look, Command, Suspend, WriteConfig, Admit},
	Admin:        {Look, Command, Suspend, WriteVersion, WriteConfig, Admit},
	Local:        {Look, Command, Suspend, WriteVersion, WriteConfig, Admit, GiveAccess},
}

// May reports whether a role has a right. An unknown role has none.
func (r Role) May(right Right) bool { return slices.Contains(rights[r], right) }

// Which names the roles of access tokens that have a right, as "operator or admin".
func Which(right Right) string {
	var names []string
	for _, role := range Roles {
		if role.May(right) {
			names = append(names, string(role))
		}
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
