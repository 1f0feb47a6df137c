package page

import (
	"net/http"
	"strconv"

	"teleport-update/find/server/adminapi"
)

// historyShown is how many records the audit list has at first, and historyAll how many the server keeps.
const (
	historyShown = 100
	historyAll   = 10_000
)

// historyView is the audit list, the newest record first.
type historyView struct {
	Records []adminapi.HistoryEntry
	More    bool
}

func (p *page) history(w http.ResponseWriter, v *visit) {
	limit := historyShown
	if v.URL.Query().Get("all") == "true" {
		limit = historyAll
	}
	var list adminapi.History
	if err := p.api.ask(v, http.MethodGet, "/v1/history?limit="+strconv.Itoa(limit), nil, &list); err != nil {
		p.fail(w, v, err)
		return
	}
	view := historyView{Records: list.Records, More: limit == historyShown && len(list.Records) == limit}
	p.show(w, v, http.StatusOK, "history", frame{Title: "Audit list", Here: "history", Refresh: limit == historyShown, View: view})
}
