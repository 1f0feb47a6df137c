package inventory

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

// BenchmarkReport is a report of a host with nothing new to say.
func BenchmarkReport(b *testing.B) {
	f := newFleet(FleetOptions{Clock: newClock().Now}, newClock().Now())
	handler := NewReports(f, slog.New(slog.DiscardHandler))
	const hosts = 10_000
	var bodies []string
	for i := range hosts {
		benchJoin(f, i)
		body, _ := json.Marshal(find.Heartbeat{
			HostID: hostUUID(i), Sequence: 1, BootID: hostUUID(i), UpdaterID: hostUUID(i + hosts), Hostname: "ip-10-0-0-1.internal", Group: "dev", Version: "17.2.0", Edition: "oss", Arch: "amd64",
		})
		bodies = append(bodies, string(body))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := i % hosts
		if n == 0 { // the same reports may be taken again
			b.StopTimer()
			for i := range hosts {
				benchJoin(f, i)
			}
			b.StartTimer()
		}
		req := httptest.NewRequest(http.MethodPost, find.HeartbeatPath, strings.NewReader(bodies[n]))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+secretOf(n))
		rec := httptest.NewRecorder()
		if handler.Heartbeat(rec, req); rec.Code != http.StatusOK {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}

// benchJoin has a host join, or begin again with its sequence.
func benchJoin(f *Fleet, i int) {
	var e fleet.Entry
	e.ID = rollout.ParseHostID(hostUUID(i))
	f.table.Get(e.ID, &e)
	e.Secret, e.Sequence, e.Burst = digestOf(secretOf(i)), 0, 0
	f.table.Put(&e)
}
