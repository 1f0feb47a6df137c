package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// server is one whose parts a test sets.
type server struct {
	*Metrics
	mu     sync.Mutex
	now    time.Time
	passed time.Duration
	age    time.Duration
	ageErr error
	engine Engine
	of     *rollout.Rollout
}

func newServer() *server {
	s := &server{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s.Metrics = New(Options{Version: "1.2.3", Clock: s.clock, Elapsed: s.elapsed})
	s.engine = Engine{LastTick: s.now}
	s.From(Sources{
		Snapshot:    func() (time.Duration, error) { return s.age, s.ageErr },
		Rollout:     func() *rollout.Rollout { return s.of },
		Engine:      func() Engine { return s.engine },
		Certificate: func() time.Time { return s.now.Add(time.Hour) },
	})
	return s
}

func (s *server) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *server) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

func (s *server) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.passed = s.now.Add(d), s.passed+d
}

func (s *server) get(path string) (int, string) { return s.ask(http.MethodGet, path) }

func (s *server) ask(method, path string) (int, string) {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// inProgress has a rollout with a group that goes on and one that is halted.
func (s *server) inProgress() {
	s.of = &rollout.Rollout{
		Spec: rollout.RolloutSpec{StartVersion: "15.1.0", TargetVersion: "15.2.0", Mode: rollout.Enabled},
		Status: rollout.RolloutStatus{State: "active", Groups: []rollout.GroupStatus{
			{Name: "dev", State: "active", Plan: &rollout.PlanReference{HostCount: 40, LastActiveHostIndex: 9}},
			{Name: "prod", State: "unstarted", Halted: &rollout.Halted{Reason: "too_many_failed", Message: "secret-message"}},
		}},
	}
	s.engine.Counts = rollout.Counts{
		Subject: s.of.Subject(),
		Groups: []rollout.GroupCounts{
			{Tally: rollout.Tally{
				rollout.OnTarget: {rollout.HostUpToDate: 7, rollout.HostDown: 1}, rollout.OnStart: {rollout.HostNotYet: 3, rollout.HostFailed: 1, rollout.HostMissing: 2},
				rollout.OnOther: {rollout.HostNotYet: 1},
			}}, {},
		},
		Unmatched: map[string]int{"typo": 2, "other": 1},
	}
}

func TestMetricsTellOfTheServerAndItsRollout(t *testing.T) {
	s := newServer()
	s.age = 90 * time.Second
	s.inProgress()
	code, text := s.get("/metrics")
	for _, want := range []string{
		"teleport_find_start_time_seconds 1.7723664e+09", `teleport_find_build_info{version="1.2.3"} 1`, "teleport_find_snapshot_age_seconds 90",
		"teleport_find_engine_last_tick_timestamp_seconds 1.7723664e+09", "teleport_find_engine_failing 0",
		"teleport_find_certificate_expiry_timestamp_seconds 1.77237e+09",
		`teleport_find_rollout_info{mode="enabled",start="15.1.0",state="active",target="15.2.0"} 1`,
		`teleport_find_group_state{group="dev",state="active"} 1`, `teleport_find_group_halted{group="prod",reason="too_many_failed"} 1`,
		`teleport_find_hosts{group="dev",outcome="up_to_date",version="15.2.0"} 7`, `teleport_find_hosts{group="dev",outcome="unhealthy",version="15.2.0"} 1`,
		`teleport_find_hosts{group="dev",outcome="not_yet",version="15.1.0"} 3`, `teleport_find_hosts{group="dev",outcome="failed",version="15.1.0"} 1`,
		`teleport_find_hosts{group="dev",outcome="missing",version="15.1.0"} 2`, `teleport_find_hosts{group="dev",outcome="not_yet",version="other"} 1`,
		`teleport_find_hosts{group="prod",outcome="up_to_date",version="15.2.0"} 0`, `teleport_find_plan_index{group="dev"} 10`,
		`teleport_find_plan_hosts{group="dev"} 40`, "teleport_find_unmatched_hosts 3",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	if code != http.StatusOK || strings.Contains(text, "secret-message") || t.Failed() {
		t.Errorf("%d\n%s", code, text)
	}
	problems, err := testutil.GatherAndLint(s.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Whatever hosts make up, there are not more metrics.
func TestNoLabelGrowsWithWhatHostsSay(t *testing.T) {
	s := newServer()
	s.inProgress()
	handler := s.Count(http.NotFoundHandler())
	ask := func(method, path string) {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	ask(http.MethodGet, "/")
	count := func() int {
		n, err := testutil.GatherAndCount(s.registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	for i := range 1000 {
		for _, path := range []string{"/made-up-%d", "/v1/webapi/find?host=%d", "/v1/made-up-%d", "/releases/%d"} {
			ask(http.MethodGet, fmt.Sprintf(path, i))
		}
		ask(fmt.Sprintf("M%d", i), "/")
		s.engine.Counts.Unmatched[fmt.Sprintf("made-up-%d", i)] = 1
	}
	if after := count(); after != before || before < 20 {
		t.Errorf("there were %d metrics, and then %d", before, after)
	}
}

func TestRequestsAndReportsAreCountedByTheirAnswers(t *testing.T) {
	s := newServer()
	handler := s.Count(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code == "409" {
			w.WriteHeader(http.StatusConflict)
		} else if code == "418" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Write([]byte("x"))
	}))
	for _, path := range []string{
		"/v1/webapi/find", "/webapi/find", find.HeartbeatPath, find.HeartbeatPath + "?code=409", find.JoinPath, "/apt/x", "/x?code=418",
	} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	_, text := s.get("/metrics")
	for _, want := range []string{
		`teleport_find_requests_total{code="200",endpoint="find"} 2`, `teleport_find_requests_total{code="200",endpoint="report"} 1`,
		`teleport_find_requests_total{code="409",endpoint="report"} 1`, `teleport_find_requests_total{code="200",endpoint="join"} 1`,
		`teleport_find_requests_total{code="200",endpoint="repository"} 1`, `teleport_find_requests_total{code="0",endpoint="other"} 1`,
		`teleport_find_reports_total{result="taken"} 2`, `teleport_find_reports_total{result="out_of_order"} 1`,
		`teleport_find_reports_total{result="unavailable"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}

// A loop that hangs is a reason to start the process again; one that fails is none.
func TestALoopThatHangsIsNotAlive(t *testing.T) {
	s := newServer()
	if err := s.Live(); err != nil {
		t.Errorf("before the loops run: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	taken := s.Metrics.Engine().Of(ctx, ticks)
	for range 3 { // a loop that does nothing but fail
		s.pass(50 * time.Second)
		ticks <- s.clock()
		<-taken
		until(t, func() bool { quiet, _ := s.Metrics.engine.quiet(); return quiet == 0 })
	}
	if code, text := s.get("/livez"); code != http.StatusOK || text != "engine: ok\n" {
		t.Errorf("%d, %s", code, text)
	}
	s.pass(61 * time.Second)
	if err := s.Live(); err == nil || !strings.Contains(err.Error(), "engine: it has done nothing for 1m1s") {
		t.Errorf("a loop that hangs: %v", err)
	}
	if code, _ := s.get("/livez"); code != http.StatusServiceUnavailable {
		t.Errorf("/livez is %d", code)
	}
	stop()
	until(t, func() bool { _, there := s.Metrics.engine.quiet(); return !there })
}

// The clock says nothing of a loop: it is set forward by hours, and back.
func TestAClockThatIsSetEndsNoServer(t *testing.T) {
	s := newServer()
	ctx, stop := context.WithCancel(t.Context())
	pulse := s.Metrics.Engine()
	pulse.Of(ctx, nil)
	set := func(d time.Duration) { s.mu.Lock(); s.now = s.now.Add(d); s.mu.Unlock() }
	set(9 * time.Hour)
	if err := s.Live(); err != nil {
		t.Errorf("the clock was set forward: %v", err)
	}
	set(-18 * time.Hour)
	s.pass(61 * time.Second)
	if err := s.Live(); err == nil {
		t.Error("the clock was set back, and a loop that hangs is alive")
	}
	stop()
	until(t, func() bool { _, there := pulse.quiet(); return !there })
}

// A tick of a large store takes minutes, and is no loop that hangs while it goes on.
func TestATickThatGoesOnIsAlive(t *testing.T) {
	s := newServer()
	pulse := s.Reports()
	pulse.Beat()
	s.pass(time.Hour)
	if code, text := s.get("/livez"); code != http.StatusOK || text != "server: ok\n" {
		t.Errorf("without a loop: %d, %s", code, text)
	}
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	taken := pulse.Of(ctx, ticks)
	ticks <- s.clock()
	<-taken
	until(t, func() bool { quiet, _ := pulse.quiet(); return quiet == 0 })
	for range 5 {
		s.pass(50 * time.Second)
		pulse.Beat()
		if code, text := s.get("/livez"); code != http.StatusOK || text != "reports: ok\n" {
			t.Errorf("while the tick goes on: %d, %s", code, text)
		}
	}
	s.pass(61 * time.Second)
	if err := s.Live(); err == nil {
		t.Error("a tick that hangs is alive")
	}
	stop()
	until(t, func() bool { _, there := pulse.quiet(); return !there })
}

// until waits until something is so.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not become so")
}

func TestReadyzTellsEachPartWithItsReason(t *testing.T) {
	s := newServer()
	if code, text := s.get("/readyz"); code != http.StatusOK || text != "snapshot: ok\ntick: ok\nserver: ok\n" {
		t.Errorf("%d, %s", code, text)
	}
	s.age, s.ageErr = 2*time.Minute, errors.New("the store /x:\nthe file is gone")
	s.pass(90 * time.Second)
	s.engine.Err = errors.New("locked")
	want := "snapshot: the answers are 2m0s old: the store /x: the file is gone\n" +
		"tick: the rollout was not looked at for 1m30s: locked\nserver: ok\n"
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} { // balancers have checks of each
		if code, text := s.ask(method, "/readyz"); code != http.StatusServiceUnavailable || text != want {
			t.Errorf("%s: %d, %s", method, code, text)
		}
	}
	if code, text := s.get("/livez"); code != http.StatusOK {
		t.Errorf("a store that is away ends the process: %s", text)
	}
}

// Each part alone is a reason to ask another server, and says which.
func TestReadyzOfEachPartAlone(t *testing.T) {
	var reports, resting error
	for part, breaks := range map[string]func(*server){
		"snapshot":  func(s *server) { s.age, s.ageErr = 2*time.Minute, errors.New("why") },
		"tick":      func(s *server) { s.engine.LastTick, s.engine.Err = s.now.Add(-61*time.Second), errors.New("why") },
		"inventory": func(*server) { reports = errors.New("why") },
		"answers":   func(*server) { resting = errors.New("why") },
	} {
		s := newServer()
		reports, resting = nil, nil
		s.sources.Reports = func() error { return reports }
		s.sources.Resting = func() error { return resting }
		if code, text := s.get("/readyz"); code != http.StatusOK || text != "snapshot: ok\ntick: ok\ninventory: ok\nanswers: ok\nserver: ok\n" {
			t.Fatalf("%d, %s", code, text)
		}
		breaks(s)
		code, text := s.get("/readyz")
		for line := range strings.Lines(text) {
			name, said, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if (name == part) != strings.HasSuffix(said, "why") || name != part && said != "ok" {
				t.Errorf("%s does not work: %s", part, line)
			}
		}
		if code != http.StatusServiceUnavailable || !strings.Contains(text, part+": ") {
			t.Errorf("%s does not work: %d, %s", part, code, text)
		}
	}
}

// A fleet may have more groups than metrics name: the others are one.
func TestGroupsAreBounded(t *testing.T) {
	s := newServer()
	s.inProgress()
	s.of.Status.Groups, s.engine.Counts.Groups = nil, nil
	for i := range maxGroups + 5 {
		name := fmt.Sprint("g", i)
		if i == 3 {
			name = other // somebody calls a group so
		}
		s.of.Status.Groups = append(s.of.Status.Groups, rollout.GroupStatus{Name: name, State: "active"})
		s.engine.Counts.Groups = append(s.engine.Counts.Groups, rollout.GroupCounts{Tally: rollout.Tally{rollout.OnStart: {rollout.HostNotYet: 2}}})
	}
	s.engine.Counts.Subject = s.of.Subject()
	_, text := s.get("/metrics")
	if !strings.Contains(text, `teleport_find_hosts{group="other",outcome="not_yet",version="15.1.0"} 12`+"\n") {
		t.Error("the groups beyond are not one")
	}
	if n := strings.Count(text, `teleport_find_hosts{group="`); n != maxGroups*3*7 {
		t.Errorf("%d numbers; want %d", n, maxGroups*3*7)
	}
}

func TestTheStoreIsTimedAndItsErrorsCounted(t *testing.T) {
	s := newServer()
	opened, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	kept := s.Store(opened)
	ctx := t.Context()
	at, err := kept.Put(ctx, "a", []byte("1"), store.None)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Put(ctx, "a", []byte("2"), at+1); err == nil { // a conflict
		t.Fatal("a stale change is taken")
	}
	if _, err := kept.Get(ctx, "b"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if items, _, err := kept.List(ctx, ""); err != nil || len(items) != 1 {
		t.Fatalf("%v, %v", items, err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	kept.Purge(ctx, time.Now())
	_, text := s.get("/metrics")
	for _, want := range []string{
		`teleport_find_store_operation_seconds_count{operation="put"} 2`, `teleport_find_store_operation_seconds_count{operation="list"} 1`,
		`teleport_find_store_errors_total{operation="put"} 0`, `teleport_find_store_errors_total{operation="get"} 0`,
		`teleport_find_store_errors_total{operation="purge"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}

// Nothing but the command knows of metrics: a room of their own.
func TestNoOtherRoomKnowsOfMetrics(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	more, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		if !strings.HasPrefix(file, "../metrics/") && importsMetrics(t, file) {
			t.Errorf("%s imports this package", file)
		}
	}
}

func TestTheSkewIsToldOfTwoClocksOnly(t *testing.T) {
	s := newServer()
	const name = "teleport_find_store_clock_skew_seconds"
	if _, text := s.get("/metrics"); strings.Contains(text, name) {
		t.Error("one clock has a skew")
	}
	skew := -12 * time.Second
	s.engine.Skew = &skew
	if _, text := s.get("/metrics"); !strings.Contains(text, "\n"+name+" -12\n") {
		t.Errorf("the skew is not among\n%s", text)
	}
}
