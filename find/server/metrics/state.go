package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"teleport-update/find/rollout"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	startTime   = describe("start_time_seconds", "When the server started.")
	buildInfo   = describe("build_info", "The version of the server: always 1.", "version")
	snapshotAge = describe("snapshot_age_seconds", "How old the answers to hosts are.")
	lastTick    = describe("engine_last_tick_timestamp_seconds", "When the rollout was last looked at without an error.")
	engineFails = describe("engine_failing", "Whether the last look at the rollout ended with an error.")
	clockSkew   = describe("store_clock_skew_seconds", "What the clock of a store in a database is ahead of the server's. "+
		"Beyond 10, in either direction, the server does not move the rollout.")
	certificate = describe("certificate_expiry_timestamp_seconds", "When the certificate of the server ends.")
	rolloutInfo = describe("rollout_info", "The rollout in progress: always 1.", "target", "start", "state", "mode")
	groupState  = describe("group_state", "The state of a group: 1 for one of them.", "group", "state")
	groupHalted = describe("group_halted", "1 for a group that is halted, with the reason.", "group", "reason")
	hosts       = describe("hosts",
		"Hosts of a group that are present or missing, each once: by their version (that of the rollout's start, its target, "+
			"or other) and by what became of the update.", "group", "version", "outcome")
	planIndex    = describe("plan_index", "How many hosts of a group's plan have had their turn.", "group")
	planHosts    = describe("plan_hosts", "How many hosts a group's plan has.", "group")
	hooksFailing = describe("webhooks_failing", "Webhooks that are not told what they should be.")
	hooksWaiting = describe("webhook_events_waiting", "Events that wait for a webhook.")
	unmatched    = describe("unmatched_hosts", "Hosts that name a group which the rollout does not have.")
)

// state reads what there is at the moment that somebody asks.
type state struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		startTime, buildInfo, snapshotAge, lastTick, engineFails, clockSkew, certificate, rolloutInfo, groupState, groupHalted, hosts,
		planIndex, planHosts, unmatched, hooksFailing, hooksWaiting,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(startTime, seconds(s.m.began))
	gauge(buildInfo, 1, s.m.opts.Version)
	o := s.m.sources
	if o.Snapshot != nil {
		age, _ := o.Snapshot()
		gauge(snapshotAge, age.Seconds())
	}
	if o.Certificate != nil {
		if end := o.Certificate(); !end.IsZero() {
			gauge(certificate, seconds(end))
		}
	}
	if o.Webhooks != nil {
		failing, waiting := o.Webhooks()
		gauge(hooksFailing, float64(failing))
		gauge(hooksWaiting, float64(waiting))
	}
	var counts rollout.Counts
	if o.Engine != nil {
		e := o.Engine()
		counts = e.Counts
		if !e.LastTick.IsZero() {
			gauge(lastTick, seconds(e.LastTick))
		}
		gauge(engineFails, number(e.Err != nil))
		if e.Skew != nil {
			gauge(clockSkew, e.Skew.Seconds())
		}
		gauge(unmatched, float64(total(counts.Unmatched)))
	}
	if o.Rollout == nil {
		return
	}
	if r := o.Rollout(); r != nil {
		tellRollout(gauge, r, counts)
	}
}

type gauges func(d *prometheus.Desc, value float64, labels ...string)

func tellRollout(gauge gauges, r *rollout.Rollout, counts rollout.Counts) {
	gauge(rolloutInfo, 1, string(r.Spec.TargetVersion), string(r.Spec.StartVersion), string(r.Status.State), string(r.Spec.Mode))
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		gauge(groupState, 1, g.Name, string(g.State))
		if g.Halted != nil {
			gauge(groupHalted, 1, g.Name, string(g.Halted.Reason))
		}
		if g.Plan != nil {
			gauge(planIndex, float64(g.Plan.LastActiveHostIndex+1), g.Name)
			gauge(planHosts, float64(g.Plan.HostCount), g.Name)
		}
	}
	if len(counts.Groups) == len(r.Status.Groups) {
		tellHosts(gauge, r, counts)
	}
}

const (
	// other is every version but the two of the rollout, and every group after maxGroups.
	other = "other"
	// maxGroups bounds the groups that hosts are told of by name.
	maxGroups = 100
)

// labels are those of hosts.
type labels struct{ group, version, outcome string }

// tellHosts names no version but two: hosts can make up others.
func tellHosts(gauge gauges, r *rollout.Rollout, counts rollout.Counts) {
	versions := map[rollout.VersionClass]string{
		rollout.OnTarget: string(r.Spec.TargetVersion), rollout.OnStart: string(r.Spec.StartVersion), rollout.OnOther: other,
	}
	sums := make(map[labels]int)
	for i := range r.Status.Groups {
		group := r.Status.Groups[i].Name
		if i >= maxGroups {
			group = other
		}
		for _, class := range rollout.VersionClasses() {
			for _, result := range rollout.HostResults() {
				sums[labels{group, versions[class], result.String()}] += counts.Groups[i].Tally[class][result]
			}
		}
	}
	for l, n := range sums {
		gauge(hosts, float64(n), l.group, l.version, l.outcome)
	}
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
