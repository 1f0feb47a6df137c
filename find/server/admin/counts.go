package admin

import (
	"net/http"

	"teleport-update/find/fleet"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

func (a *api) counts(w http.ResponseWriter, _ *http.Request) {
	now := a.Stored.Now()
	answer := adminapi.Counts{Versions: make(map[string]int)}
	a.Fleet.Each(func(e *fleet.Entry) {
		if e.Omitted(now) == "" {
			answer.Versions[string(e.Version)]++
		}
	})
	parts.Reply(w, http.StatusOK, answer)
}
