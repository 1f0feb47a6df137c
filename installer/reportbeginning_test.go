package installer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/report"
)

// A find server that takes a report and never answers does not hold the update up that the report is of,
// and hears nothing more when the update is over. What is told after a transaction ends in its time.
func TestAReportNeitherHoldsNorOutlivesAnUpdate(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the limit of a report")
	}
	i := testInstaller(t)
	var stalls atomic.Bool
	var beats atomic.Int32
	arrived, gone := make(chan struct{}, 10), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != find.HeartbeatPath {
			return
		}
		beats.Add(1)
		http.MaxBytesReader(w, r.Body, 1<<16).Read(make([]byte, 1<<16)) // or nobody notices who goes
		if stalls.Load() {
			arrived <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		}
	}))
	defer server.Close()
	must(t, os.MkdirAll(i.Machine.Host.Paths.Versions(), 0o755))
	must(t, (state.Config{Version: "v1", Kind: "agent_versions", Spec: state.Spec{Proxy: server.URL, Enabled: true}}).Save(i.Machine.Host.Paths.Config()))
	writeFile(t, filepath.Join(i.Machine.Host.Paths.DataDir, "host_uuid"), "11111111-0000-4000-8000-000000000000")
	must(t, i.heartbeats().enroll(t.Context(), "teleport-find-abcdefghijklmnop"))
	stalls.Store(true)
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(2 * time.Second): // report.Limit is longer
			t.Fatal(what)
		}
	}

	begin := time.Now()
	end := i.heartbeats().reportBeginning(t.Context(), configOf(t, i), transaction.Request{To: state.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}}})
	if took := time.Since(begin); took > time.Second {
		t.Errorf("an update waits %s for its report", took)
	}
	wait("the update is not reported", arrived)
	begin = time.Now()
	end()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("an update that is over waits %s for its report", took)
	}
	wait("the report goes on after the update", gone)
	n := beats.Load()

	begin = time.Now()
	i.heartbeats().report(t.Context(), configOf(t, i), nil)
	if took := time.Since(begin); took > report.Limit+time.Second {
		t.Errorf("a report takes %s", took)
	}
	if beats.Load() != n+1 {
		t.Errorf("%d reports were sent", beats.Load()-n)
	}
}
