package page

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"teleport-update/find/server/adminapi"
)

// actView shows the changes of an order, and asks for a reason.
type actView struct {
	action
	Changes []string
	// Seen is the key of the changes that the form showed.
	Seen    string
	Reason  string
	Problem string
	Back    string // the view that leads to the order
}

// ask shows the changes of an order.
func (p *page) ask(w http.ResponseWriter, v *visit) {
	p.showAct(w, v, http.StatusOK, actionOf(v.URL.Query().Get), "", "")
}

func (p *page) showAct(w http.ResponseWriter, v *visit, status int, a action, reason, problem string) {
	changes, err := p.foresee(v, a)
	if err != nil {
		p.fail(w, v, err)
		return
	}
	title := a.Label
	if name := cmp.Or(a.Group, changes.host); name != "" {
		title += ": " + name
	}
	p.show(w, v, status, "act", frame{Title: title, Here: "overview", View: actView{
		action: a, Changes: changes.lines, Seen: changes.key, Reason: reason, Problem: problem, Back: a.view(),
	}})
}

// foresee returns the changes of an order, by the dry run of the admin API.
func (p *page) foresee(v *visit, a action) (changes plan, err error) {
	switch {
	case a.Label == "":
		return changes, &refusal{http.StatusBadRequest, "There is no such order."}
	case a.Verb == suspend:
		return p.foreseeSuspend(v)
	case a.Host != "":
		return p.foreseeHost(v, a)
	}
	var now adminapi.Overview
	if err := p.api.ask(v, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return changes, err
	}
	var result adminapi.OrderResult
	if err := p.api.ask(v, http.MethodPost, "/v1/orders?dry_run=true", a.order(""), &result); err != nil {
		return changes, err
	}
	return planOf(now.Overview, a, result), nil
}

// act gives an order, if its changes are still the ones that were shown.
func (p *page) act(w http.ResponseWriter, v *visit) {
	a := actionOf(v.PostFormValue)
	reason := strings.TrimSpace(v.PostFormValue("reason"))
	changes, err := p.foresee(v, a)
	switch {
	case err != nil:
		p.refuse(w, v, a, err)
		return
	case reason == "":
		p.showAct(w, v, http.StatusUnprocessableEntity, a, "", "Give a reason: it stays in the audit list.")
		return
	case len(reason) > maxReason:
		p.showAct(w, v, http.StatusUnprocessableEntity, a, "", fmt.Sprintf("The reason is longer than %d characters.", maxReason))
		return
	case v.PostFormValue("seen") != changes.key:
		p.showAct(w, v, http.StatusConflict, a, reason, "The rollout has changed since you looked. This is what the order would "+
			"change now: confirm it again.")
		return
	}
	if err := p.carryOut(v, a, reason); err != nil {
		p.refuse(w, v, a, err)
		return
	}
	p.opts.Log.Info("somebody gave an order on the page", "verb", a.Verb, "group", a.Group, "host", a.Host, "token", v.Token)
	v.session.setNotice(strings.TrimSpace("Done: " + a.Label + " " + cmp.Or(a.Group, changes.host)))
	http.Redirect(w, v.Request, a.view(), http.StatusSeeOther)
}

// maxReason bounds the reason in the audit list.
const maxReason = 500

// refuse says why an order was refused, and logs it: without the right, a visitor sees no such order and must have made the form.
func (p *page) refuse(w http.ResponseWriter, v *visit, a action, err error) {
	p.opts.Log.Warn("the page refused what a form asked for", "verb", a.Verb, "group", a.Group, "host", a.Host,
		"token", v.Token, "role", v.Role, "error", err)
	p.fail(w, v, err)
}

func (p *page) carryOut(v *visit, a action, reason string) error {
	if a.Verb == suspend {
		return p.suspend(v, reason)
	}
	if a.Host != "" {
		return p.orderHost(v, a, reason)
	}
	var result adminapi.OrderResult
	return p.api.ask(v, http.MethodPost, "/v1/orders", a.order(reason), &result)
}
