package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// bearer is who makes a request over TCP.
type bearer struct {
	name string
	role adminapi.Role
}

type bearerKey struct{}

// roleOf is what the one who makes a request may do. Without a token it came over the socket, which only
// the right people can open.
func roleOf(ctx context.Context) adminapi.Role {
	if b, ok := ctx.Value(bearerKey{}).(bearer); ok {
		return b.role
	}
	return adminapi.Local
}

// RequireAccess lets requests through that have the access token of somebody as
// their bearer token; who that is decides what they may do. It stands before the admin API on
// every way to it but the socket.
func RequireAccess(access *Access, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		err := error(ErrAccess)
		var b bearer
		if strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(secret, accessMark) && len(secret) < 200 {
			b.name, b.role, err = access.Holder(r.Context(), secret)
		}
		switch {
		case errors.Is(err, ErrAccess):
			w.Header().Set("WWW-Authenticate", "Bearer")
			parts.Reply(w, http.StatusUnauthorized, adminapi.Error{Error: err.Error()})
		case err != nil:
			fail(w, "access token", err)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bearerKey{}, b)))
		}
	})
}

// needs reports whether who makes a request has a role, and answers that they have not.
func needs(w http.ResponseWriter, r *http.Request, role adminapi.Role) bool {
	has := roleOf(r.Context())
	if has.May(role) {
		return true
	}
	text := fmt.Sprintf("this is for the role %s, and the access token has the role %s", role, has)
	if role == adminapi.Local {
		text = "access tokens are made and revoked over the socket of the server's machine only"
	}
	parts.Reply(w, http.StatusForbidden, adminapi.Error{Error: text})
	return false
}

// neededFor is the role that a request takes. What is in the resources that are written decides further: see
// resourceRole.
func neededFor(r *http.Request) adminapi.Role {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case kind == "access":
		return adminapi.Local
	case r.Method == http.MethodGet:
		return adminapi.Viewer
	case kind == "orders":
		return adminapi.Operator
	case kind == "resources":
		return adminapi.VersionAdmin
	}
	return adminapi.ConfigAdmin
}

// resourceRole is the role that writing resources takes.
func resourceRole(list []rollout.Resource) adminapi.Role {
	for _, one := range list {
		if one.GetKind() != rollout.KindVersion {
			return adminapi.ConfigAdmin
		}
	}
	return adminapi.VersionAdmin
}
