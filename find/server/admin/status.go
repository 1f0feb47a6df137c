package admin

import (
	"net/http"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	parts.Reply(w, http.StatusOK, a.serverStatus())
}

func (a *api) serverStatus() (status adminapi.Status) {
	age, err := a.Stored.Age()
	status.SnapshotAge = age.Seconds()
	if err != nil {
		status.StoreError = err.Error()
	}
	status.Blocked = a.Blocked()
	if a.Certificate != nil {
		status.Certificate = parts.CertificateTrouble(a.Certificate(), a.Stored.Now())
	}
	if a.Hooks != nil {
		status.Webhooks = a.Hooks.Trouble()
	}
	if a.Fleet != nil {
		status.Full = a.Fleet.Full()
	}
	if a.Engine != nil {
		engine := a.Engine.Status()
		status.LastTick, status.LastWrite, status.Waiting = engine.LastTick, engine.LastWrite, engine.Waiting
		if engine.Skew != nil {
			skew := engine.Skew.Seconds()
			status.ClockSkew = &skew
		}
		if engine.Err != nil {
			status.EngineError = engine.Err.Error()
		}
	}
	return status
}

func (a *api) overview(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	if r.URL.Query().Get("counts") == "last" {
		scene := a.Engine.CountedScene(a.Stored.Resources())
		parts.Reply(w, http.StatusOK, adminapi.Overview{Overview: rollout.Survey(scene), Server: a.serverStatus()})
		return
	}
	scene, err := a.Engine.Scene(r.Context())
	if err != nil {
		scene = a.Engine.LastScene(a.Stored.Resources()) // it says that it is blocked
	}
	parts.Reply(w, http.StatusOK, adminapi.Overview{Overview: rollout.Survey(scene), Server: a.serverStatus()})
}

func (a *api) why(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	query := r.URL.Query()
	parts.Reply(w, http.StatusOK, a.Stored.Why(rollout.Query{Group: query.Get("group"), Host: query.Get("host"),
		UpdaterID: query.Get("update_id")}))
}

func (a *api) channels(w http.ResponseWriter, r *http.Request) {
	answer := adminapi.Channels{Channels: []adminapi.Channel{}}
	if a.Channels != nil {
		answer.Channels = a.Channels.List(r.Context())
	}
	parts.Reply(w, http.StatusOK, answer)
}
