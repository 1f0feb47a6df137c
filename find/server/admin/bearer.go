package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// bearer is the holder of the access token in a request over TCP.
type bearer struct {
	name string
	role adminapi.Role
}

type bearerKey struct{}

// roleOf returns the role for a request. A request without a token came over the socket, which only the
// right people can open.
func roleOf(ctx context.Context) adminapi.Role {
	if b, ok := ctx.Value(bearerKey{}).(bearer); ok {
		return b.role
	}
	return adminapi.Local
}

// As returns a context for requests to the admin API by the holder of an access token that was checked elsewhere: at the
// page. The role limits them, and the history names the token.
func As(ctx context.Context, token string, role adminapi.Role) context.Context {
	return context.WithValue(ctx, bearerKey{}, bearer{name: token, role: role})
}

// RequireAccess lets a request through if its bearer token is a valid access token. The
// token's role limits the request. RequireAccess stands before the admin API on every way to
// it but the socket.
func RequireAccess(access *Access, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		err := error(ErrAccess)
		var b bearer
		if strings.EqualFold(scheme, "Bearer") {
			b.name, b.role, err = access.Holder(r.Context(), secret)
		}
		switch {
		case errors.Is(err, ErrAccess):
			w.Header().Set("WWW-Authenticate", "Bearer")
			parts.Reply(w, http.StatusUnauthorized, adminapi.Error{Error: err.Error()})
		case err != nil:
			parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{Error: err.Error()})
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bearerKey{}, b)))
		}
	})
}

// needs reports whether the sender of a request has a right. If not, it answers with an error.
func needs(w http.ResponseWriter, r *http.Request, right adminapi.Right) bool {
	has := roleOf(r.Context())
	if has.May(right) {
		return true
	}
	text := fmt.Sprintf("this is for the role %s, and the access token has the role %s", adminapi.Which(right), has)
	if right == adminapi.GiveAccess {
		text = "access tokens are made and revoked over the socket of the server's machine only"
	}
	parts.Reply(w, http.StatusForbidden, adminapi.Error{Error: text})
	return false
}

// neededFor returns the right for a request. For writes of resources, see also resourceRights.
func neededFor(r *http.Request) adminapi.Right {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case kind == "access":
		return adminapi.GiveAccess
	case r.Method == http.MethodGet:
		return adminapi.Look
	case kind == "orders" || kind == "hosts" && r.Method == http.MethodPost:
		return adminapi.Command
	case kind == "resources" && r.Method == http.MethodPut:
		return adminapi.Look
	case kind == "notify" || strings.HasPrefix(r.URL.Path, "/v1/resources/"+rollout.KindNotify+"/"):
		return adminapi.WriteConfig
	case kind == "resources":
		return adminapi.WriteVersion
	}
	return adminapi.Admit
}

// resourceRights returns the rights to write these resources, each once.
func (a *api) resourceRights(ctx context.Context, list []rollout.Resource) (needed []adminapi.Right) {
	for _, one := range list {
		right := adminapi.WriteConfig
		switch one := one.(type) {
		case *rollout.Version:
			right = adminapi.WriteVersion
		case *rollout.Config:
			if a.isSuspend(ctx, one) {
				right = adminapi.Suspend
			}
		}
		if !slices.Contains(needed, right) {
			needed = append(needed, right)
		}
	}
	return needed
}

// isSuspend reports whether a configuration differs from the store's only by the mode
// suspended, and the store's mode is not disabled. It must name the revision of the
// store's configuration, so that it cannot replace a later one.
func (a *api) isSuspend(ctx context.Context, wanted *rollout.Config) bool {
	r, err := a.Stored.Get(ctx, rollout.KindConfig, rollout.NameConfig)
	there, is := r.(*rollout.Config)
	if err != nil || !is || wanted.Metadata.Revision == 0 {
		return false
	}
	if there.Spec.Agents.Mode == rollout.Disabled || wanted.Spec.Agents.Mode != rollout.Suspended {
		return false
	}
	suspended := *there
	suspended.Spec.Agents.Mode = rollout.Suspended
	return reflect.DeepEqual(&suspended, wanted)
}
