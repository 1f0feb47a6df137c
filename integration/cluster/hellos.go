package cluster

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"teleport-update/find"
)

// Hello is what an agent says of itself at each connection. A cluster decides by it, and
// by nothing that an updater says.
type Hello struct {
	HostUUID string       `json:"host_uuid"`
	Version  string       `json:"version"`
	Updater  *UpdaterInfo `json:"updater"` // nil: nobody keeps the agent up to date
}

// UpdaterInfo is how an agent is kept up to date.
type UpdaterInfo struct {
	Group  string `json:"group"`
	Status string `json:"status"`
	ID     string `json:"id"`
}

// Inventory is what a cluster knows of its agents, and the rollout that it decides by
// that.
type Inventory struct {
	mu       sync.Mutex
	agents   map[string]Hello // the last hello of each host
	canaries []string         // ids of updaters; nil: no canaries are waited for
	target   find.Answer
}

// Count is how many hosts of a group count in its rollout, and how many of them run a
// version: not those that nobody keeps up to date, and not those that do not follow
// their cluster.
func (i *Inventory) Count(group, version string) (all, upToDate int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.agents {
		if h.counts(group) {
			all++
			if h.Version == version {
				upToDate++
			}
		}
	}
	return all, upToDate
}

func (h Hello) counts(group string) bool {
	return h.Updater != nil && h.Updater.Status == "ok" && h.Updater.Group == group
}

// Said is the last hello of the one host that there is; the zero Hello where it said
// none since Forget.
func (i *Inventory) Said() (said Hello) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.agents {
		said = h
	}
	return said
}

// Forget drops all hellos: what is known next was said later.
func (i *Inventory) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.agents)
}

// PickCanaries lets the hosts of a group that count, and that have an id, have a version
// before all others, and returns their ids. All others are told of the version, and that
// it is not their turn.
func (c *Cluster) PickCanaries(group string, target find.Answer) []string {
	i := &c.Inventory
	i.mu.Lock()
	defer i.mu.Unlock()
	i.canaries, i.target = []string{}, target
	for _, h := range i.agents {
		if h.counts(group) && h.Updater.ID != "" {
			i.canaries = append(i.canaries, h.Updater.ID)
		}
	}
	return i.canaries
}

// serve takes a hello, and answers find while canaries are waited for: shipped
// proxies tell a canary by update_id alone.
func (i *Inventory) serve(w http.ResponseWriter, r *http.Request, isFind bool) (done bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case r.URL.Path == "/hello":
		var h Hello
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return true
		}
		if i.agents == nil {
			i.agents = map[string]Hello{}
		}
		i.agents[h.HostUUID] = h
		return true
	case !isFind || i.canaries == nil:
		return false
	}
	answer := i.target
	answer.AutoUpdate = slices.Contains(i.canaries, r.URL.Query().Get("update_id"))
	body, err := answer.Body()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	_, _ = w.Write(body)
	return true
}
