package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"teleport-update/find/rollout"
)

// gaugeCollector serves the gauges.
type gaugeCollector struct {
	m            *Metrics
	descriptions []*prometheus.Desc // of gauges, in the same order
}

func newGaugeCollector(m *Metrics) *gaugeCollector {
	s := &gaugeCollector{m: m}
	for _, g := range gauges {
		s.descriptions = append(s.descriptions, prometheus.NewDesc(prometheus.BuildFQName(namespace, "", g.name), g.help, g.labels, nil))
	}
	return s
}

// Describe implements prometheus.Collector.
func (s *gaugeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.descriptions {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *gaugeCollector) Collect(to chan<- prometheus.Metric) {
	now := s.m.reading()
	for i, g := range gauges {
		g.read(now, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(s.descriptions[i], prometheus.GaugeValue, value, labels...)
		})
	}
}

// reading holds the values of all sources at one moment.
type reading struct {
	began           time.Time
	version         string
	snapshotAge     *time.Duration   // nil: there are no answers
	certificate     time.Time        // zero: no certificate
	webhooksFailing *int             // nil: this server posts nothing
	engine          *Engine          // nil: this server runs none
	rollout         *rollout.Rollout // nil: no rollout is in progress
}

// reading reads each source once.
func (m *Metrics) reading() reading {
	o := m.sources
	now := reading{began: m.began, version: m.opts.Version}
	if o.Snapshot != nil {
		age, _ := o.Snapshot()
		now.snapshotAge = &age
	}
	if o.Certificate != nil {
		now.certificate = o.Certificate()
	}
	if o.Webhooks != nil {
		now.webhooksFailing = new(o.Webhooks())
	}
	if o.Engine != nil {
		now.engine = new(o.Engine())
	}
	if o.Rollout != nil {
		now.rollout = o.Rollout()
	}
	return now
}
