package page

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page/pagetest"
)

// crowded is a world with that many hosts, in six groups, of which one in a hundred has failed, and somebody's cookie.
func crowded(t *testing.T, hosts int) (w *world, cookie string) {
	t.Helper()
	w = served(t, pagetest.New(t))
	groups := ""
	for g := range 6 {
		groups += fmt.Sprintf(`{"name":"group-%d","days":["*"],"start_hour":12},`, g)
	}
	w.Apply(fmt.Sprintf(pagetest.ConfigText, groups[:len(groups)-1]), pagetest.Version)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range hosts {
		b := rollout.Heartbeat{
			HostID: fmt.Sprintf("%016x-0000-0000-%012x", random.Uint64(), i)[:8] + fmt.Sprintf("-%04x-4000-8000-%012x", random.Uint32()&0xffff, i),
			Group:  fmt.Sprint("group-", i%6), Version: "17.2.0", Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i>>8, i&255), Edition: "oss",
		}
		if i%100 == 0 {
			b.Outcome = &rollout.Outcome{Target: "17.2.1", State: rollout.OutcomeFailed, Error: "it broke", Time: w.Clock()}
		}
		w.Fleet.Take(b, w.Clock())
	}
	w.Pass(30 * time.Minute)
	w.Tick()
	b := w.as(adminapi.Viewer)
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	return w, b.http.Jar.Cookies(u)[0].String()
}

// look asks for a page, and returns how long its first byte took: all of a view is sent at once.
func (w *world) look(t *testing.T, path, cookie string) time.Duration {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Cookie", cookie)
	rec := httptest.NewRecorder()
	began := time.Now()
	w.handler.ServeHTTP(rec, req)
	took := time.Since(began)
	if rec.Code != http.StatusOK {
		t.Fatalf("%s answers %d", path, rec.Code)
	}
	return took
}

// millionViews are looked at with a million hosts.
var millionViews = map[string]string{
	"the rollout": Path, "hosts": Path + "hosts", "hosts, from the middle": Path + "hosts?after=80000000-0000-4000-8000-000000000000",
	"hosts that failed": Path + "hosts?state=failed", "hosts of a group": Path + "hosts?group=group-5", "hosts of a name": Path + "hosts?hostname=nobody",
	"the audit list": Path + "history",
}

// The figures of the docs. No test fails by the clock: a view that counts or sorts all hosts takes seconds, and is found by
// TestAPageLooksAtFewHostsWhole in find/fleet.
func TestFirstByteWithAMillionHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("a million hosts take some seconds to make up")
	}
	w, cookie := crowded(t, 1_000_000)
	for name, path := range millionViews {
		w.look(t, path, cookie)
		best := w.look(t, path, cookie)
		for range 4 {
			best = min(best, w.look(t, path, cookie))
		}
		t.Logf("first byte with 1,000,000 hosts, %s: %s", name, best.Round(100*time.Microsecond))
	}
}
