package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

// hostsShown is how many hosts a page of the list has.
const hostsShown = 100

// hostsQuery selects the hosts of a list.
type hostsQuery struct {
	State                    adminapi.HostState
	Group, Version, Hostname string
	After                    string
	Limit                    int
}

func queryOf(r *http.Request) hostsQuery {
	get := func(name string) string { return console.Line(r.URL.Query().Get(name)) }
	return hostsQuery{
		State: adminapi.HostState(get("state")), Group: get("group"), Version: get("version"), Hostname: get("hostname"), After: get("after"),
		Limit: hostsShown,
	}
}

// values returns the parameters that are set.
func (q hostsQuery) values() url.Values {
	values := make(url.Values)
	for name, value := range map[string]string{
		"state": string(q.State), "group": q.Group, "version": q.Version, "hostname": q.Hostname, "after": q.After,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// path is the path of the list in the admin API.
func (q hostsQuery) path() string {
	values := q.values()
	values.Set("limit", strconv.Itoa(q.Limit))
	values.Set("total", "false")
	return "/v1/hosts?" + values.Encode()
}

// hostsView is a page of the list of hosts.
type hostsView struct {
	hostsQuery
	Hosts  []adminapi.Host
	States []adminapi.HostState
	First  string // the address of the first page; empty on it
	Next   string // the address of the next page; empty for none
}

func (p *page) hosts(w http.ResponseWriter, v *visit) {
	q := queryOf(v.Request)
	view := hostsView{hostsQuery: q, States: adminapi.HostStates}
	var found adminapi.Hosts
	if _, isID := rollout.ParseUUID(q.Hostname); isID {
		http.Redirect(w, v.Request, Path+"hosts/"+url.PathEscape(q.Hostname), http.StatusSeeOther)
		return
	}
	if err := p.api.ask(v, http.MethodGet, q.path(), nil, &found); err != nil {
		p.fail(w, v, err)
		return
	}
	view.Hosts = found.Hosts
	address := func(after string) string {
		next := q
		next.After = after
		return Path + "hosts?" + next.values().Encode()
	}
	if q.After != "" {
		view.First = address("")
	}
	if found.Next != "" {
		view.Next = address(found.Next)
	}
	p.show(w, v, http.StatusOK, "hosts", frame{Title: "Hosts", Here: "hosts", View: view})
}

// hostView is the view of one host.
type hostView struct {
	adminapi.Host
	Why     adminapi.Why
	Orders  []choice
	Events  []event
	Records []adminapi.HistoryEntry
	// Facts come from the host's own reports.
	Facts [][2]string
}

// event is something that happened to a host.
type event struct {
	Time  time.Time
	What  string
	Error string
}

// maxHostRecords is how many records of the history one host's view has.
const maxHostRecords = 100

func (p *page) host(w http.ResponseWriter, v *visit) {
	id := v.PathValue("id")
	var view hostView
	if err := p.api.ask(v, http.MethodGet, "/v1/hosts/"+url.PathEscape(id), nil, &view.Host); err != nil {
		p.fail(w, v, err)
		return
	}
	query := url.Values{"host": {view.ID}, "group": {view.Group}, "update_id": {view.UpdaterID}}
	if err := p.api.ask(v, http.MethodGet, "/v1/why?"+query.Encode(), nil, &view.Why); err != nil {
		p.fail(w, v, err)
		return
	}
	var history adminapi.History
	query = url.Values{"host": {view.ID}, "limit": {strconv.Itoa(maxHostRecords)}}
	if err := p.api.ask(v, http.MethodGet, "/v1/history?"+query.Encode(), nil, &history); err != nil {
		p.fail(w, v, err)
		return
	}
	if v.may(adminapi.Command) {
		view.Orders = choicesFor(v, view.Choices)
	}
	view.Records, view.Events, view.Facts = history.Records, eventsOf(view.Host), factsOf(view.Host)
	p.show(w, v, http.StatusOK, "host", frame{Title: "Host " + cmp.Or(view.Hostname, view.ID), Here: "hosts", Refresh: true, View: view})
}

func factsOf(h adminapi.Host) (facts [][2]string) {
	edition := h.Edition
	if h.Version != "" {
		edition = h.Version + " " + h.Edition
	}
	for _, f := range [][2]string{
		{"ID", h.ID}, {"Hostname", h.Hostname}, {"Group", h.Group}, {"Runs", edition}, {"Architecture", h.Arch},
		{"State", plain(string(h.State))},
		{"Order", h.Order}, {"Not counted", h.Omitted}, {"Join token", h.Token}, {"Updater", h.UpdaterID},
	} {
		if f[1] != "" {
			facts = append(facts, f)
		}
	}
	for _, f := range []struct {
		is   bool
		text string
	}{
		{h.Pinned, "It is pinned to its version."}, {h.Disabled, "Its updates are disabled."}, {h.Unhealthy, "Its agent is down."},
		{h.Cloned, "Several hosts report with its secret."}, {h.BelowMinimum, "Its policy refuses the version that it runs."},
		{h.Unsigned, "It would refuse its version if its policy required signatures."}, {h.Revoked, "Its secret was revoked."},
	} {
		if f.is {
			facts = append(facts, [2]string{"Note", f.text})
		}
	}
	return facts
}

// eventsOf returns the events of a host, the newest first.
func eventsOf(h adminapi.Host) (events []event) {
	add := func(at time.Time, what, err string) {
		if !at.IsZero() {
			events = append(events, event{at, what, err})
		}
	}
	add(h.FirstSeen, "first report since its last long pause", "")
	add(h.LastSeen, "last report", "")
	if h.Told != nil {
		add(h.Told.Time, "said that it was told to update to "+h.Told.Target, "")
	}
	if h.Begun != nil {
		add(h.Begun.Time, "began to update to "+h.Begun.Target, "")
	}
	if h.Failed != nil {
		add(h.Failed.Time, "failed to update to "+h.Failed.Target, h.Failed.Error)
	}
	slices.SortStableFunc(events, func(a, b event) int { return b.Time.Compare(a.Time) })
	return events
}
