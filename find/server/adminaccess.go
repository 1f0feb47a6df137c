package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// AdminAccess is the access tokens.
type AdminAccess struct {
	Tokens []AdminAccessToken `json:"tokens"`
}

// AdminAccessToken is one of them. Token is there when it is made, and never again.
type AdminAccessToken struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created"`
	By      string    `json:"created_by"`
	Token   string    `json:"token,omitempty"`
}

// AdminAccessRequest asks for a token.
type AdminAccessRequest struct {
	Name      string `json:"name" yaml:"name"`
	Role      Role   `json:"role" yaml:"role"`
	ExpiresIn string `json:"expires_in,omitempty" yaml:"expires_in"` // a duration; empty: never
}

// bearer is who makes a request over TCP.
type bearer struct {
	name string
	role Role
}

type bearerKey struct{}

// roleOf is what the one who makes a request may do. Without a token it came over the socket, which only
// the right people can open.
func roleOf(ctx context.Context) Role {
	if b, ok := ctx.Value(bearerKey{}).(bearer); ok {
		return b.role
	}
	return local
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
			reply(w, http.StatusUnauthorized, AdminError{err.Error()})
		case err != nil:
			fail(w, "access token", err)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bearerKey{}, b)))
		}
	})
}

// needs reports whether who makes a request has a role, and answers that they have not.
func needs(w http.ResponseWriter, r *http.Request, role Role) bool {
	has := roleOf(r.Context())
	if has.may(role) {
		return true
	}
	text := fmt.Sprintf("this is for the role %s, and the access token has the role %s", role, has)
	if role == local {
		text = "access tokens are made and revoked over the socket of the server's machine only"
	}
	reply(w, http.StatusForbidden, AdminError{text})
	return false
}

// neededFor is the role that a request takes. What is in the resources that are written decides further: see
// resourceRole.
func neededFor(r *http.Request) Role {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case kind == "access":
		return local
	case r.Method == http.MethodGet:
		return Viewer
	case kind == "orders":
		return Operator
	case kind == "resources":
		return VersionAdmin
	}
	return ConfigAdmin
}

// resourceRole is the role that writing resources takes.
func resourceRole(list []rollout.Resource) Role {
	for _, one := range list {
		if one.GetKind() != rollout.KindVersion {
			return ConfigAdmin
		}
	}
	return VersionAdmin
}

func dryRun(r *http.Request) bool { return r.URL.Query().Get("dry_run") == "true" }

func (a *api) access(w http.ResponseWriter, r *http.Request) {
	list, err := a.Access.List(r.Context())
	if err != nil {
		fail(w, "access token", err)
		return
	}
	reply(w, http.StatusOK, AdminAccess{list})
}

func (a *api) addAccess(w http.ResponseWriter, r *http.Request) {
	var request AdminAccessRequest
	if !decode(w, r, &request) {
		return
	}
	made, err := a.Access.Add(r.Context(), request, a.audit(r), dryRun(r))
	if err != nil {
		fail(w, "access token", err)
		return
	}
	if made.Token != "" {
		a.Log.Info("an access token was made", "token", made.Name, "role", made.Role, "expires", made.Expires, "by", made.By)
	}
	reply(w, http.StatusOK, made)
}

func (a *api) revokeAccess(w http.ResponseWriter, r *http.Request) {
	if a.revoke(w, r, "access token", a.Access.Revoke) {
		a.access(w, r)
	}
}

// decode reads what a request asks for, or answers what is wrong with it.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxResource))
	if err == nil {
		err = rollout.DecodeJSON(body, into)
	}
	if err != nil {
		reply(w, http.StatusBadRequest, AdminError{err.Error()})
	}
	return err == nil
}

// revoke revokes the token that a request names, or answers why it cannot.
func (a *api) revoke(w http.ResponseWriter, r *http.Request, what string, revoke func(ctx context.Context, name string, audit store.Audit, dryRun bool) error) bool {
	name := r.PathValue("name")
	err := revoke(r.Context(), name, a.audit(r), dryRun(r))
	if errors.Is(err, store.ErrNotFound) {
		reply(w, http.StatusNotFound, AdminError{fmt.Sprintf("there is no %s %.80q", what, name)})
		return false
	}
	if err != nil {
		fail(w, what, err)
		return false
	}
	if !dryRun(r) {
		a.Log.Info("a token was revoked", "kind", what, "token", name, "by", peer(r.Context()))
	}
	return true
}
