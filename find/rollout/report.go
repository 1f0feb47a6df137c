package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// ReportLife is how long the report of a server is valid.
const ReportLife = 3 * time.Minute

// AgentReport is the resource autoupdate_agent_report: what the hosts run that a server reports. Each server writes one a minute,
// under its own name. Several servers on one store all know all hosts, and each reports a share of them: the sum of the
// reports counts each host once.
//
//	kind: autoupdate_agent_report
//	version: v1
//	metadata: {name: find-1}
//	spec:
//	  timestamp: 2025-05-28T11:22:41Z
//	  groups:
//	    dev: {versions: {17.2.0: {count: 15}, 17.2.1: {count: 34}}}
//	  omitted:
//	  - {count: 120, reason: pinned to a version}
type AgentReport struct {
	Kind     string     `json:"kind" yaml:"kind"`
	Version  string     `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata   `json:"metadata" yaml:"metadata"`
	Spec     ReportSpec `json:"spec" yaml:"spec"`
}

// ReportSpec is the specification of an AgentReport.
type ReportSpec struct {
	Timestamp time.Time              `json:"timestamp" yaml:"timestamp"`
	Groups    map[string]ReportGroup `json:"groups,omitempty" yaml:"groups,omitempty"`
	Omitted   []ReportOmitted        `json:"omitted,omitempty" yaml:"omitted,omitempty"`
}

// ReportGroup is the hosts of one group.
type ReportGroup struct {
	Versions map[string]ReportCount `json:"versions" yaml:"versions"`
}

// ReportCount is a number of hosts.
type ReportCount struct {
	Count int `json:"count" yaml:"count"`
}

// ReportOmitted is hosts that are in no group's count, and why.
type ReportOmitted struct {
	Count  int    `json:"count" yaml:"count"`
	Reason string `json:"reason" yaml:"reason"`
}

// NewAgentReport returns the report of a server on the groups of a rollout.
func NewAgentReport(server string, r *Rollout, n Counts, now time.Time) *AgentReport {
	report := &AgentReport{Kind: KindReport, Version: apiVersion, Metadata: Metadata{Name: server}}
	report.Spec = ReportSpec{Timestamp: moment(now), Groups: make(map[string]ReportGroup)}
	for i := range n.Groups {
		versions := make(map[string]ReportCount)
		for v, count := range n.Groups[i].Versions {
			versions[string(v)] = ReportCount{count}
		}
		report.Spec.Groups[r.Status.Groups[i].Name] = ReportGroup{versions}
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Omitted)) {
		report.Spec.Omitted = append(report.Spec.Omitted, ReportOmitted{n.Omitted[reason], reason})
	}
	return report
}

// ReportKey returns the key of a server's report.
func ReportKey(server string) string { return KindReport + "/" + server }

// GetKind implements Resource.
func (r *AgentReport) GetKind() string { return KindReport }

// GetMetadata implements Resource.
func (r *AgentReport) GetMetadata() *Metadata { return &r.Metadata }

// Check implements Resource.
func (r *AgentReport) Check() error {
	if err := checkHead(r.Kind, KindReport, r.Version, r.Metadata, ""); err != nil {
		return err
	}
	for name, group := range r.Spec.Groups {
		for v, n := range group.Versions {
			if n.Count < 0 {
				return fmt.Errorf("spec.groups.%s.versions.%s.count: %d is not a number of hosts", excerpt(name), excerpt(v), n.Count)
			}
		}
	}
	return nil
}
