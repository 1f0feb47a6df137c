package monitoring

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/metrics"
	"teleport-update/find/store"
	"teleport-update/internal/golden"
)

// metricsOfAServer are the names of all metrics that a server may have.
func metricsOfAServer(t *testing.T) (names []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^(teleport_find_\w+)`).FindAllStringSubmatch(metricsText(t), -1) {
		names = append(names, found[1])
	}
	if len(names) < 39 {
		t.Fatalf("the metrics are %q", names)
	}
	return names
}

func metricsText(t *testing.T) string {
	t.Helper()
	m := metrics.New(metrics.Options{Version: "1.2.3", Clock: time.Now})
	group := rollout.GroupStatus{Name: "dev", Halted: &rollout.Halted{}, Plan: &rollout.PlanReference{}}
	present := &rollout.Rollout{Status: rollout.RolloutStatus{Groups: []rollout.GroupStatus{group}}}
	m.From(metrics.Sources{
		Snapshot:    func() (time.Duration, error) { return 0, nil },
		Rollout:     func() *rollout.Rollout { return present },
		Certificate: time.Now,
		Webhooks:    func() int { return 0 },
		Engine: func() metrics.Engine {
			return metrics.Engine{LastTick: time.Now(), Skew: new(time.Second), Counts: rollout.Counts{Subject: present.Subject(), Groups: []rollout.GroupCounts{{}}}}
		},
	})
	m.Count(http.NotFoundHandler())
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if _, err := m.Store(kept).Purge(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

var metricOfAServer = regexp.MustCompile(`\bteleport_find_\w+`)

func TestTheRulesOfServersUseMetricsThatThereAre(t *testing.T) {
	known := metricsOfAServer(t)
	for _, r := range rulesIn(t, "find.rules.yml") {
		for _, name := range metricOfAServer.FindAllString(r.Expr, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", r.Alert, name)
			}
		}
	}
}

// The guide lists what a server tells of.
func TestTheGuideHasTheMetricsOfAServer(t *testing.T) {
	text := "\n| metric | type | what |\n| --- | --- | --- |\n"
	help := ""
	for line := range strings.Lines(metricsText(t)) {
		line = strings.TrimSpace(line)
		if says, ok := strings.CutPrefix(line, "# HELP teleport_find_"); ok {
			_, help, _ = strings.Cut(says, " ")
		}
		if said, ok := strings.CutPrefix(line, "# TYPE teleport_find_"); ok {
			name, kind, _ := strings.Cut(said, " ")
			text += "| `teleport_find_" + name + "` | " + kind + " | " + help + " |\n"
		}
	}
	golden.Part(t, "../../docs/monitor.md", "a server with a rollout, its metrics", text)
}

// Grafana shows what a server tells of, and nothing else.
func TestTheDashboardShowsWhatAServerTellsOf(t *testing.T) {
	data, err := os.ReadFile("find.dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			GridPos struct{ X, Y, W, H int }
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	known := metricsOfAServer(t)
	shown := ""
	for i, p := range board.Panels {
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
			for _, name := range metricOfAServer.FindAllString(target.Expr, -1) {
				if !strings.HasSuffix(name, "_") && !slices.Contains(known, name) {
					t.Errorf("%s: there is no metric %s", p.Title, name)
				}
			}
		}
		for _, q := range board.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			apart := a.X >= b.X+b.W || b.X >= a.X+a.W
			if !apart && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, q.Title)
			}
		}
	}
	// What no panel is for is in the table at the end, a new metric too.
	rest := regexp.MustCompile(`\{__name__=~"(.+?)", __name__!~"(.+?)"`).FindStringSubmatch(shown)
	if rest == nil {
		t.Fatalf("no panel shows all other values:\n%s", shown)
	}
	shown = strings.Replace(shown, rest[0], "", 1)
	in, notIn := regexp.MustCompile("^(?:"+rest[1]+")$"), regexp.MustCompile("^(?:"+rest[2]+")$")
	for _, name := range known {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		own := regexp.MustCompile(`\b` + base + `(_bucket)?\b`).MatchString(shown)
		if other := in.MatchString(name) && !notIn.MatchString(name); own == other {
			t.Errorf("%s: on a panel of its own: %v; among all other values: %v", name, own, other)
		}
	}
}
