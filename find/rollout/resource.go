// Package rollout holds an operator's resources for updates, and derives from them the
// answer for each host. It is made of pure functions: no clock, no file, no network.
//
// The resources are Teleport's for Managed Updates v2, in YAML or JSON. People write
// autoupdate_config (how and when hosts are updated) and autoupdate_version (to which
// version). From these and the reports of hosts, Next steps the Rollout from group to
// group, and a Snapshot gives each host its answer. All resources are read strictly. An
// unknown field is an error that names its path: a misspelt word must not update a
// fleet that was to be left alone.
//
// table.go shows all states of a group and every way from one to another.
package rollout

// The kinds of resources. People write the first three; the others are written by
// servers, and can be read.
const (
	KindConfig  = "autoupdate_config"
	KindVersion = "autoupdate_version"
	KindNotify  = "autoupdate_notify" // a webhook: servers post events of the rollout to it
	KindRollout = "autoupdate_agent_rollout"
	KindReport  = "autoupdate_agent_report" // one for each server
	KindPlan    = "agent_rollout_plan"      // one for each group with max_in_flight
)

// The names of the only resource of its kind.
const (
	NameConfig  = "autoupdate-config"
	NameVersion = "autoupdate-version"
	NameRollout = "autoupdate-agent-rollout"
)

// Kinds are the kinds that people write.
var Kinds = []string{KindConfig, KindVersion, KindNotify}

// SystemKinds are the kinds that servers write.
var SystemKinds = []string{KindRollout, KindReport, KindPlan}

// apiVersion is the only value of the field version in a resource.
const apiVersion = "v1"

// Resource is a *Config, *Version, *Notify, *Rollout, *Report or *PlanResource.
type Resource interface {
	// GetKind returns one of the kinds.
	GetKind() string
	// GetMetadata returns the metadata, which can be edited in place.
	GetMetadata() *Metadata
	// Check returns an error that names the path of a value that cannot be right.
	Check() error
}

// Metadata is common to all resources.
type Metadata struct {
	Name string `json:"name" yaml:"name"`
	// Revision is set in resources from a server. A change with a revision is refused
	// if the resource has another one by then.
	Revision int64 `json:"revision,omitempty" yaml:"revision,omitempty"`
}
