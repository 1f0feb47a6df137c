// Package metrics tells those who run a find server how it does: in metrics for
// Prometheus, in /livez whether the process is alive, and in /readyz whether it should
// get requests.
//
// They are on a listener of their own. It takes no commands, and says nothing that a
// host or a person keeps secret; but it names groups and versions, and so is for the
// network of those who run the server. No label takes its values from hosts: what a host
// can make up is counted under "other".
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"teleport-update/find/rollout"
)

// Options are what is known of a server.
type Options struct {
	Version string
	Clock   func() time.Time
	// Elapsed returns the age of this process by a clock that nobody sets, and that stands still with the machine: a
	// loop does not hang because its machine was suspended. nil: time.Since.
	Elapsed func() time.Duration
}

// Sources are where the metrics come from. A source that is nil has no metrics.
type Sources struct {
	// Store returns why the store cannot be opened, of a server that waits for it.
	Store func() error
	// Snapshot returns how old the answers are and why they are not renewed.
	Snapshot func() (age time.Duration, err error)
	// Rollout returns the one in progress, nil for none.
	Rollout func() *rollout.Rollout
	Engine  func() Engine
	// Reports returns why reports of hosts cannot be kept; nil if they can.
	Reports func() error
	// Held says what is in force on this server only, as it could not be written.
	Held func() []string
	// Webhooks returns to how many webhooks no event can be delivered.
	Webhooks func() (failing int)
	// Certificate returns when that of the listener for hosts ends; the zero time for none.
	Certificate func() time.Time
}

// Engine is how the engine does.
type Engine struct {
	LastTick time.Time      // that came to an end; zero for none yet
	Err      error          // of the last tick
	Skew     *time.Duration // what the store's clock is ahead of the server's; nil: nobody knows of two
	Counts   rollout.Counts
}

// Metrics are those of one server.
type Metrics struct {
	opts     Options
	sources  Sources
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	reports  *prometheus.CounterVec
	store    *prometheus.HistogramVec
	failed   *prometheus.CounterVec
	posts    *prometheus.CounterVec
	engine   Pulse
	kept     Pulse
	began    time.Time
}

const namespace = "teleport_find"

// New returns the metrics of a server that starts now, without sources.
func New(opts Options) *Metrics {
	if opts.Elapsed == nil {
		start := time.Now()
		opts.Elapsed = func() time.Duration { return time.Since(start) }
	}
	m := &Metrics{
		opts: opts, registry: prometheus.NewRegistry(), began: opts.Clock(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total", Help: "Requests of hosts, by endpoint and status code of the answer.",
		}, []string{"endpoint", "code"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "reports_total", Help: "Reports of hosts, and their joins, by what became of them.",
		}, []string{"result"}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "store_operation_seconds", Help: "Time that operations on the store took.",
			Buckets: []float64{0.0005, 0.002, 0.01, 0.05, 0.2, 1, 5},
		}, []string{"operation"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "store_errors_total", Help: "Operations on the store that failed.",
		}, []string{"operation"}),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "webhook_deliveries_total",
			Help: "Posts of events by this server to webhooks, by result: delivered, failed (posted again), given_up (the event was not delivered).",
		}, []string{"result"}),
	}
	m.engine.elapsed, m.kept.elapsed = opts.Elapsed, opts.Elapsed
	m.registry.MustRegister(m.requests, m.reports, m.store, m.failed, m.posts, newGaugeCollector(m), collectors.NewGoCollector())
	for _, result := range results {
		m.reports.WithLabelValues(result)
	}
	for _, result := range deliveries {
		m.posts.WithLabelValues(result)
	}
	for _, operation := range operations {
		m.failed.WithLabelValues(operation)
	}
	return m
}

// From sets the sources. It is called once, before anything is served.
func (m *Metrics) From(s Sources) { m.sources = s }

// Handler serves /metrics, /livez and /readyz.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.live()) })
	ready := func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.ready()) }
	mux.HandleFunc("GET /readyz", ready)
	mux.HandleFunc("OPTIONS /readyz", ready) // the checks of some balancers
	return mux
}
