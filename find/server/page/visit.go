package page

import (
	"net/http"

	"teleport-update/find/server/adminapi"
)

// visit is one request of a visitor, signed in or not.
type visit struct {
	*http.Request
	session *session // nil: not signed in
	Role    adminapi.Role
	Token   string // the name of the access token
}

// may reports whether the visitor has a right.
func (v *visit) may(right adminapi.Right) bool { return v.session != nil && v.Role.May(right) }
