//go:build hosts

package clusterfaults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/store"
)

const (
	// inFaults is how long servers are waited for while there is a fault: most have looked by then, and some cannot.
	inFaults = 150 * time.Millisecond
	// inPeace is the limit of the wait without one. Servers that lost their database need some seconds for new connections, and
	// more on a busy machine; a step of the clock that does not wait for them is minutes in which nobody hears of a host.
	inPeace = 30 * time.Second
)

// look waits until servers have looked at this time, or are known not to, and have written who has reported to them. A step
// of the clock is minutes: hosts whose server has not told the others for half a second would have been silent for half an
// hour.
func (w *world) look(now []active) {
	patience := inPeace
	if len(now) > 0 {
		patience = inFaults
	}
	limit := time.Now().Add(patience)
	live := 0
	for i, s := range w.servers {
		p := s.running()
		if p == nil || p.isPaused() || w.skewed[i] != 0 {
			continue
		}
		live++
		for time.Now().Before(limit) {
			var status adminapi.Status
			if err := s.admin(http.MethodGet, "/v1/status", nil, &status); err == nil && !status.LastTick.Before(w.time()) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if !ofDatabase(now) {
		w.heard(live, limit)
	}
}

// heard waits until so many servers have written at this time who was seen.
func (w *world) heard(live int, limit time.Time) {
	ctx, cancel := context.WithDeadline(w.t.Context(), limit)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		items, _, err := w.own.List(ctx, "agents/seen/")
		if err == nil && savers(items, w.time()) >= live {
			return
		}
	}
}

// savers is how many servers have written at a time who was seen: agents/seen/SERVER/SECONDS-N.
func savers(items []store.Item, at time.Time) int {
	names := make(map[string]bool)
	for _, item := range items {
		words := strings.Split(item.Key, "/")
		if len(words) == 4 && strings.HasPrefix(words[3], fmt.Sprint(at.Unix(), "-")) {
			names[words[2]] = true
		}
	}
	return len(names)
}
