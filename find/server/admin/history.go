package admin

import (
	"net/http"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/inventory"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

func (a *api) history(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultPage, maxPage)
	if !ok {
		return
	}
	key, order, read := "", "", limit
	if id, is := rollout.ParseUUID(r.URL.Query().Get("host")); is {
		key, order, read = inventory.HostKey(id), "host "+id.String()+" ", store.MaxHistory
	}
	records, err := a.Store.History(r.Context(), read)
	if err != nil {
		a.fail(w, "history", err)
		return
	}
	list := adminapi.History{Records: make([]adminapi.HistoryEntry, 0, min(limit, len(records)))}
	for _, one := range records {
		of := key == "" || one.Key == key || strings.HasPrefix(one.What, order)
		if !of || len(list.Records) == limit {
			continue
		}
		list.Records = append(list.Records, adminapi.HistoryEntry{
			Time: one.Time, Who: one.Who, What: one.What, Why: one.Why, Key: one.Key, From: int64(one.From), To: int64(one.To),
		})
	}
	parts.Reply(w, http.StatusOK, list)
}
