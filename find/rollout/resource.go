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

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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

// Key returns the key of a resource: its kind, or its kind and name if there are several.
func Key(r Resource) string {
	switch r.GetKind() {
	case KindNotify:
		return NotifyKey(r.GetMetadata().Name)
	case KindReport:
		return ReportKey(r.GetMetadata().Name)
	}
	return r.GetKind()
}

// Parse reads resources in YAML, several of them as several documents, or in JSON. All
// returned resources have passed their Check.
func Parse(data []byte) ([]Resource, error) {
	nodes, err := documents(data)
	if err != nil {
		return nil, err
	}
	var list []Resource
	nodes = flat(nodes)
	if len(nodes) == 0 {
		return nil, errors.New("there is no resource in it")
	}
	var found faults
	for i, node := range nodes {
		r, err := parse(node)
		if err != nil && len(nodes) > 1 {
			err = inDocument(i+1, err)
		}
		found.add(err)
		if found.full() {
			break
		}
		list = append(list, r)
	}
	if len(found) > 0 {
		return nil, found.err()
	}
	return list, nil
}

// ParseWritten is Parse for a text of people. A kind that the server writes is refused first, whatever its fields are.
func ParseWritten(data []byte) ([]Resource, error) {
	nodes, err := documents(data)
	if err != nil {
		return nil, err
	}
	for _, node := range flat(nodes) {
		if kind, err := kindOf(node); err == nil && slices.Contains([]string{KindRollout, KindReport, KindPlan}, kind) {
			return nil, WrittenByServer(kind)
		}
	}
	return Parse(data)
}

// WrittenByServer is the error of a resource of a kind that people do not write.
func WrittenByServer(kind string) error {
	return fmt.Errorf("%s is written by the server only; people write %s", kind, strings.Join(Kinds, ", "))
}

// inDocument adds to each fault the number of its document.
func inDocument(number int, err error) error {
	var of, found faults
	of.add(err)
	for _, one := range of {
		found.add(fmt.Errorf("document %d: %w", number, one))
	}
	return found.err()
}

// JSON writes a resource as it is stored and sent.
func JSON(r Resource) ([]byte, error) { return json.Marshal(r) }

// YAML writes a resource as people edit it.
func YAML(r Resource) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(r); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func parse(node *yaml.Node) (Resource, error) {
	kind, err := kindOf(node)
	if err != nil {
		return nil, err
	}
	plain(node)
	var r Resource
	switch kind {
	case KindConfig, kindRFDConfig:
		return parseConfig(node)
	case KindVersion:
		return parseVersion(node)
	case KindNotify:
		r = new(Notify)
	case KindRollout:
		r = new(Rollout)
	case KindReport:
		r = new(AgentReport)
	case KindPlan:
		r = new(PlanResource)
	default:
		return nil, fmt.Errorf("kind: %.60q is not one of %s", kind, strings.Join(Kinds, ", "))
	}
	if err := decode(node, r); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// documents reads YAML or, if the first character says so, JSON: not all JSON is taken
// by a reader of YAML.
func documents(data []byte) (nodes []*yaml.Node, err error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return jsonDocuments(data)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		// An empty document between two separators is no resource.
		if content := document.Content; len(content) == 1 && content[0].Tag != "!!null" {
			nodes = append(nodes, content[0])
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no resource in it")
	}
	return nodes, nil
}
