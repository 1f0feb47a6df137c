// Package rollout is what an operator says about updates, and what follows from
// it for a host. It is made of pure functions: no clock, no file, no network.
//
// The resources are those of Teleport's Managed Updates v2, in YAML or JSON: people
// write autoupdate_config, how and when hosts are updated, and autoupdate_version,
// to what. From these and from what hosts report, Next steps the Rollout that goes
// from group to group, and a Snapshot says what each host is told. All resources
// are read strictly. An unknown field is an error that names its path, since a
// misspelt word must not update a fleet that was to be left alone.
//
// table.go shows all states of a group and every way from one to another.
package rollout

// The kinds of resources. People write the first three; the others are written by
// servers, and can be read.
const (
	KindConfig  = "autoupdate_config"
	KindVersion = "autoupdate_version"
	KindNotify  = "autoupdate_notify" // a webhook: where servers post what happens to the rollout
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

// Kinds are those that people write.
var Kinds = []string{KindConfig, KindVersion, KindNotify}

// SystemKinds are those that servers write.
var SystemKinds = []string{KindRollout, KindReport, KindPlan}

// apiVersion is what the field version of a resource may say.
const apiVersion = "v1"

// Resource is a *Config, *Version, *Notify, *Rollout, *Report or *PlanResource.
type Resource interface {
	// GetKind returns one of the kinds.
	GetKind() string
	// GetMetadata returns what can be edited in place.
	GetMetadata() *Metadata
	// Check returns an error that names the path of what cannot be meant.
	Check() error
}

// Metadata is what all resources have.
type Metadata struct {
	Name string `json:"name" yaml:"name"`
	// Revision is set in what a server returns. In what it is given, it asks
	// for the change to be refused if the resource has another one by then.
	Revision int64 `json:"revision,omitempty" yaml:"revision,omitempty"`
}
