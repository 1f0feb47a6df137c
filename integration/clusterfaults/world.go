//go:build hosts

package clusterfaults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store/postgres"
	"teleport-update/find/store/postgres/pgtest"
	"teleport-update/integration/fleet"
)

const (
	// step is what the clock goes on by. It is less than the life of a note of who was seen. Hosts look every third one.
	step = 170 * time.Second
	// inFlight is max_in_flight of prod.
	inFlight = 2
	devHosts = 4
)

const config = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 4, canary_count: 1}
      - name: prod
        days: ["*"]
        start_hour: 4
        max_in_flight: 2
        max_failed_before_halt: 20%
        max_timeout_before_halt: 20%
        jitter_seconds: JITTER
`

// world is servers, databases and hosts, and what all of them have said. Its clock stands still between steps.
type world struct {
	t       testing.TB
	dir     string
	program string
	net     *network
	db      *cluster
	servers [servers]*findServer
	stores  [servers]*postgres.Store // of the test's clients, on the links of the servers
	own     *postgres.Store          // of the test's judge: the socket of the primary, which no network cuts off
	hosts   []*member
	linear  *linear

	mu      sync.Mutex
	now     time.Time
	skewed  [servers]time.Duration
	target  string
	good    string           // the one before it that did not fail
	order   string           // that set the target
	looked  int              // the epoch for which it was seen that the store has the order
	number  int              // of the target
	bad     bool             // hosts of prod fail
	halted  map[string]bool  // "epoch group version" that the store had halted
	epochAt int              // the epoch in which the rollout began
	answers int              // of find
	ops     map[string]int   // what was done, for the line at the end
	broken  []string         // rules
	marker  int              // the last jitter that was acknowledged
	markers map[int]struct{} // that may be in the store
	marking atomic.Bool      // a change of the configuration is on its way
}

func newWorld(t testing.TB, number int) *world {
	dir, err := os.MkdirTemp("/tmp", "cf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, now: fleet.Begin, target: "1.0.0", good: "1.0.0", halted: make(map[string]bool), ops: make(map[string]int)}
	if w.program, err = fleet.BuildServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.net = newNetwork(t, number)
	w.db = newCluster(t, w.net, dir)
	w.pass(0)
	w.db.begin(filepath.Join(dir, "clock"))
	for i := range w.servers {
		w.servers[i] = newServer(w, i)
		if w.stores[i], err = postgres.Open(t.Context(), postgres.Options{URL: w.db.address(i)}); err != nil {
			t.Fatal(err)
		}
		w.servers[i].start()
		t.Cleanup(w.servers[i].kill)
		t.Cleanup(func() { w.stores[i].Close() })
	}
	w.connect()
	t.Cleanup(func() { w.own.Close() })
	w.apply(0, strings.ReplaceAll(config, "JITTER", "0"))
	w.apply(0, versions("0.9.0", w.target))
	w.join()
	for _, s := range w.servers {
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if a, err := s.find(s.running(), w.hosts[0]); err == nil && a.Version != "" {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("server %d does not follow the store", s.number)
			}
		}
	}
	return w
}

func versions(start, target string) string {
	return fmt.Sprintf("kind: autoupdate_version\nmetadata: {name: autoupdate-version}\n"+
		"spec: {agents: {start_version: %s, target_version: %s, schedule: critical}}\n", start, target)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops[what]++
}

// broke notes that a rule was broken.
func (w *world) broke(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, w.now.Format("15:04 ")+fmt.Sprintf(format, args...))
}

// pass sets all clocks. A server whose clock is another one has a file of its own.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	w.write("clock", w.now)
	for i, skew := range w.skewed {
		w.write(fmt.Sprint("clock", i), w.now.Add(skew))
	}
}

func (w *world) write(name string, t time.Time) {
	path := filepath.Join(w.dir, name)
	err := os.WriteFile(path+".new", []byte(t.Format(time.RFC3339Nano)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) skew(s int, d time.Duration) {
	w.mu.Lock()
	w.skewed[s] = d
	w.mu.Unlock()
	w.pass(0)
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// apply puts a resource through a server, and again until the server knows what became of it.
func (w *world) apply(s int, text string) {
	w.t.Helper()
	var err error
	for range 60 {
		if err = w.servers[s].admin(http.MethodPut, "/v1/resources", []byte(text), nil); err == nil {
			return
		}
		s = (s + 1) % servers
		time.Sleep(200 * time.Millisecond)
	}
	w.t.Fatalf("apply: %v\n%s", err, text)
}

// begins has a server make a change of the configuration, and does not wait for it. Nothing is begun while another is on its way.
func (w *world) begins(s int, all *sync.WaitGroup) {
	if !w.marking.CompareAndSwap(false, true) {
		return
	}
	all.Go(func() {
		defer w.marking.Store(false)
		w.mark(s)
	})
}

// mark changes the configuration, once, through one server. An acknowledged change is not lost but by a failover.
func (w *world) mark(s int) {
	w.mu.Lock()
	next := w.marker + 1
	for n := range w.markers {
		next = max(next, n+1)
	}
	w.markers[next] = struct{}{}
	w.mu.Unlock()
	text := strings.ReplaceAll(config, "JITTER", fmt.Sprint(next))
	if err := w.servers[s].admin(http.MethodPut, "/v1/resources", []byte(text), nil); err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marker = next
	w.ops["changes of the configuration"]++
}

// connect opens the store of the primary for the judge.
func (w *world) connect() {
	w.t.Helper()
	if w.own != nil {
		w.own.Close()
	}
	var err error
	if w.own, err = postgres.Open(w.t.Context(), postgres.Options{URL: pgtest.URL("find", w.primary())}); err != nil {
		w.t.Fatal(err)
	}
}

// stored is the rollout in the primary; nil if it cannot be read.
func (w *world) stored() *rollout.Rollout {
	item, err := w.own.Get(w.t.Context(), rollout.KindRollout)
	if err != nil {
		return nil
	}
	list, err := rollout.Parse(item.Value)
	if err != nil {
		w.broke("the rollout in the store is none: %v", err)
		return nil
	}
	r, _ := list[0].(*rollout.Rollout)
	return r
}

// keepHalted keeps which groups the store has halted.
func (w *world) keepHalted(r *rollout.Rollout) {
	if r == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range r.Status.Groups {
		if g := &r.Status.Groups[i]; g.Halted != nil {
			w.halted[w.key(g.Name, string(r.Spec.TargetVersion))] = true
		}
	}
}

// key is of a group in this epoch.
func (w *world) key(group, version string) string {
	return fmt.Sprint(w.db.failovers, " ", group, " ", version)
}

func (w *world) halts() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	copied := make(map[string]bool)
	for k := range w.halted {
		copied[k] = true
	}
	return copied
}

func (w *world) primary() *pgtest.Server { return w.db.node[w.db.primary] }

// seed is what a run is drawn from.
func seed(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 32)) }

// checkMarks looks for the last change of the configuration that was acknowledged.
func (w *world) checkMarks() {
	item, err := w.own.Get(w.t.Context(), rollout.KindConfig)
	if err != nil {
		w.broke("the configuration is gone: %v", err)
		return
	}
	list, err := rollout.Parse(item.Value)
	if err != nil {
		w.broke("the configuration is none: %v", err)
		return
	}
	found := 0
	if groups := list[0].(*rollout.Config).Spec.Agents.Schedules.Regular; len(groups) == 2 && groups[1].JitterSeconds != nil {
		found = int(*groups[1].JitterSeconds)
	}
	w.mu.Lock()
	acknowledged, epochs := w.marker, w.db.failovers-w.epochAt
	w.mu.Unlock()
	if found < acknowledged && epochs == 0 {
		w.broke("the configuration has change %d, and change %d was acknowledged", found, acknowledged)
	}
	w.mu.Lock()
	w.marker = found
	w.mu.Unlock()
}

// logs shows what the servers have said last, those that were killed, too. What each answers is left out: it follows from the rest.
func (w *world) logs() {
	for i, s := range w.servers {
		var lines []string
		for _, p := range s.all() {
			for line := range strings.Lines(p.said()) {
				if !strings.Contains(line, "msg=answer") {
					lines = append(lines, line)
				}
			}
			lines = append(lines, "-- its end, or now\n")
		}
		w.t.Logf("server %d:\n%s", i, strings.Join(lines[max(0, len(lines)-90):], ""))
	}
}
