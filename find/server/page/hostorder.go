package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// view is the address of the view that leads to an action.
func (a action) view() string {
	if a.Host == "" {
		return Path
	}
	return Path + "hosts/" + url.PathEscape(a.Host)
}

// path is the address of the action's host in the admin API.
func (a action) path() string { return "/v1/hosts/" + url.PathEscape(a.Host) }

// foreseeHost returns the consequence of an order to a host.
func (p *page) foreseeHost(v *visit, a action) (changes plan, err error) {
	var known adminapi.Host
	if err := p.api.ask(v, http.MethodGet, a.path(), nil, &known); err != nil {
		return changes, err
	}
	// It says why an order is refused.
	order := adminapi.HostOrder{Action: rollout.HostAction(a.Verb)}
	if err := p.api.ask(v, http.MethodPost, a.path()+"?dry_run=true", order, new(adminapi.Host)); err != nil {
		return changes, err
	}
	changes.host = cmp.Or(known.Hostname, known.ID)
	changes.lines = []string{"The host already has this order, or runs the version."}
	for _, c := range known.Choices {
		if a.is(c) {
			changes.lines = []string{"It " + c.Does + "."}
		}
	}
	changes.key = fmt.Sprintf("%q %q", known.Order, changes.lines)
	return changes, nil
}

func (p *page) orderHost(v *visit, a action, reason string) error {
	return p.api.ask(v, http.MethodPost, a.path(), adminapi.HostOrder{Action: rollout.HostAction(a.Verb), Reason: reason}, new(adminapi.Host))
}
