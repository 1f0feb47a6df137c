// Package metrics shows the operators of a find server its state: /metrics has metrics
// for Prometheus, /livez says whether the process is alive, and /readyz whether it
// should get requests.
//
// They are on a listener of their own. It takes no commands, and shows nothing that a
// host or a person keeps secret. But it names groups and versions, so it is for the
// operators' network. No label takes its values from hosts: values that a host can make
// up are counted under "other".
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"teleport-update/find/rollout"
)

// Options are the settings of Metrics.
type Options struct {
	Version string
	Clock   func() time.Time
	// Elapsed returns the age of this process by a clock that nobody sets, and that stands still with the machine: a
	// loop does not hang because its machine was suspended. nil: time.Since.
	Elapsed func() time.Duration
}

// Sources are the sources of the metrics. A nil source has no metrics.
type Sources struct {
	// Store returns why the store cannot be opened, for a server that waits for it.
	Store func() error
	// Snapshot returns how old the answers are and why they are not renewed.
	Snapshot func() (age time.Duration, err error)
	// Rollout returns the rollout in progress, or nil.
	Rollout func() *rollout.Rollout
	Engine  func() Engine
	// Reports returns why reports of hosts cannot be kept; nil if they can.
	Reports func() error
	// Resting returns why no host is told to update while the store is in trouble; nil if hosts are.
	Resting func() error
	// Webhooks returns how many webhooks cannot get an event.
	Webhooks func() (failing int)
	// Certificate returns when the certificate of the listener for hosts ends, or the zero time.
	Certificate func() time.Time
}

// Engine is the state of the engine.
type Engine struct {
	LastTick time.Time      // the last one without an error; zero for none yet
	Err      error          // of the last tick
	Skew     *time.Duration // how far the store's clock is ahead of the server's; nil: there is one clock, or it is unknown
	Counts   rollout.Counts
}

// Metrics are the metrics of one server.
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
