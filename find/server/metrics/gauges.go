package metrics

import (
	"time"

	"teleport-update/find/rollout"
)

// gauge is a metric that is read at each request. A new gauge is one row: /metrics, the table in the guide and the dashboard's list of
// other values follow from it.
type gauge struct {
	name, help string
	labels     []string
	read       func(now reading, set set)
}

// set gives a gauge its value, for one value of each of its labels. A gauge that is not set is not served.
type set func(value float64, labels ...string)

var gauges = []gauge{
	{"start_time_seconds", "When the server started.", nil, func(now reading, set set) { set(seconds(now.began)) }},
	{"build_info", "The version of the server: always 1.", []string{"version"}, func(now reading, set set) { set(1, now.version) }},
	{"snapshot_age_seconds", "How old the answers to hosts are.", nil, func(now reading, set set) {
		if now.snapshotAge != nil {
			set(now.snapshotAge.Seconds())
		}
	}},
	{"certificate_expiry_timestamp_seconds", "When the certificate of the server ends.", nil, func(now reading, set set) {
		if !now.certificate.IsZero() {
			set(seconds(now.certificate))
		}
	}},
	{"webhooks_failing", "Webhooks to which this server can deliver no event.", nil, func(now reading, set set) {
		if now.webhooksFailing != nil {
			set(float64(*now.webhooksFailing))
		}
	}},
	{"engine_last_tick_timestamp_seconds", "When the rollout was last looked at without an error.", nil, func(now reading, set set) {
		if now.engine != nil && !now.engine.LastTick.IsZero() {
			set(seconds(now.engine.LastTick))
		}
	}},
	{"engine_failing", "Whether the last look at the rollout ended with an error.", nil, func(now reading, set set) {
		if now.engine != nil {
			set(number(now.engine.Err != nil))
		}
	}},
	{"store_clock_skew_seconds", "What the clock of a store in a database is ahead of the server's. Beyond 10, in either direction, " +
		"the server does not move the rollout.", nil, func(now reading, set set) {
		if now.engine != nil && now.engine.Skew != nil {
			set(now.engine.Skew.Seconds())
		}
	}},
	{"unmatched_hosts", "Hosts that name a group which the rollout does not have.", nil, func(now reading, set set) {
		if now.engine != nil {
			set(float64(total(now.engine.Counts.Unmatched)))
		}
	}},
	{"rollout_info", "The rollout in progress: always 1.", []string{"target", "start", "state", "mode"}, func(now reading, set set) {
		if r := now.rollout; r != nil {
			set(1, string(r.Spec.TargetVersion), string(r.Spec.StartVersion), string(r.Status.State), string(r.Spec.Mode))
		}
	}},
	{"group_state", "The state of a group: 1 for one of them.", []string{"group", "state"}, func(now reading, set set) {
		for _, g := range now.groups() {
			set(1, g.Name, string(g.State))
		}
	}},
	{"group_halted", "1 for a group that is halted, with the reason.", []string{"group", "reason"}, func(now reading, set set) {
		for _, g := range now.groups() {
			if g.Halted != nil {
				set(1, g.Name, string(g.Halted.Reason))
			}
		}
	}},
	{"plan_index", "How many hosts of a group's plan have had their turn.", []string{"group"}, func(now reading, set set) {
		for _, g := range now.groups() {
			if g.Plan != nil {
				set(float64(g.Plan.LastActiveHostIndex+1), g.Name)
			}
		}
	}},
	{"plan_hosts", "How many hosts a group's plan has.", []string{"group"}, func(now reading, set set) {
		for _, g := range now.groups() {
			if g.Plan != nil {
				set(float64(g.Plan.HostCount), g.Name)
			}
		}
	}},
	{"hosts", "Hosts of a group that are present or missing, each once: by their version (that of the rollout's start, its target, " +
		"or other) and by what became of the update.", []string{"group", "version", "outcome"}, reading.hosts},
}

func (now reading) groups() []rollout.GroupStatus {
	if now.rollout == nil {
		return nil
	}
	return now.rollout.Status.Groups
}

const (
	// other stands for every version but the rollout's two, and for every group after maxGroups.
	other = "other"
	// maxGroups is how many groups have labels of their own.
	maxGroups = 100
)

// hosts has labels for two versions only: hosts can make up others.
func (now reading) hosts(set set) {
	groups := now.groups()
	if now.engine == nil || now.rollout == nil || now.engine.Counts.Subject != now.rollout.Subject() {
		return
	}
	type labels struct{ group, version, outcome string }
	sums := make(map[labels]int)
	for i := range groups {
		group := groups[i].Name
		if i >= maxGroups {
			group = other
		}
		versions := map[rollout.VersionClass]string{
			rollout.OnTarget: string(now.rollout.Spec.TargetVersion), rollout.OnStart: string(now.rollout.Spec.StartVersion), rollout.OnOther: other,
		}
		for _, class := range rollout.VersionClasses() {
			for _, result := range rollout.HostResults() {
				sums[labels{group, versions[class], result.String()}] += now.engine.Counts.Groups[i].Tally[class][result]
			}
		}
	}
	for l, n := range sums {
		set(float64(n), l.group, l.version, l.outcome)
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
