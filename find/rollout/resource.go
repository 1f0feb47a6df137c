// Package rollout is what an operator says about updates, and what follows from
// it for a host. It is made of pure functions: no clock, no file, no network.
//
// The resources are those of Teleport's Managed Updates v2, in YAML or JSON:
// autoupdate_config says how and when hosts are updated, autoupdate_version to
// what. Both are read strictly. An unknown field is an error that names its path,
// since a misspelt word must not update a fleet that was to be left alone.
package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The kinds of resources, and the name that the only one of each has.
const (
	KindConfig  = "autoupdate_config"
	KindVersion = "autoupdate_version"
	NameConfig  = "autoupdate-config"
	NameVersion = "autoupdate-version"
)

// Kinds are all of them.
var Kinds = []string{KindConfig, KindVersion}

// apiVersion is what the field version of a resource may say.
const apiVersion = "v1"

// Resource is a *Config or a *Version.
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

// Config is the resource autoupdate_config: how and when hosts are updated. All of
// it but the mode takes effect with the next rollout.
type Config struct {
	Kind     string     `json:"kind" yaml:"kind"`
	Version  string     `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata   `json:"metadata" yaml:"metadata"`
	Spec     ConfigSpec `json:"spec" yaml:"spec"`
}

// ConfigSpec is the specification of a Config.
type ConfigSpec struct {
	Agents ConfigAgents `json:"agents,omitzero" yaml:"agents,omitempty"`
	Tools  ConfigTools  `json:"tools,omitzero" yaml:"tools,omitempty"`
}

// ConfigAgents is about agents.
type ConfigAgents struct {
	Mode     Mode     `json:"mode,omitempty" yaml:"mode,omitempty"`
	Strategy Strategy `json:"strategy,omitempty" yaml:"strategy,omitempty"`
	// Window is how long the groups of the time-based strategy may update.
	Window    Duration  `json:"maintenance_window_duration,omitzero" yaml:"maintenance_window_duration,omitempty"`
	Schedules Schedules `json:"schedules,omitzero" yaml:"schedules,omitempty"`
}

// Schedules are lists of groups, each with its times.
type Schedules struct {
	Regular []Group `json:"regular,omitempty" yaml:"regular,omitempty"`
}

// Group is when the hosts of one update group are updated. Hosts of other groups
// and of none are in the last group of the list.
type Group struct {
	Name string `json:"name" yaml:"name"`
	// Days are Monday to Thursday where none are given.
	Days []Day `json:"days,omitempty" yaml:"days,omitempty,flow"`
	// StartHour is in UTC, 0 to 23.
	StartHour *int `json:"start_hour" yaml:"start_hour"`
	// WaitHours pass after the group before is done.
	WaitHours int `json:"wait_hours,omitempty" yaml:"wait_hours,omitempty"`
	// CanaryCount is how many hosts go first, 0 to 5.
	CanaryCount int `json:"canary_count,omitempty" yaml:"canary_count,omitempty"`
}

// ConfigTools is about client tools: tsh and tctl of people.
type ConfigTools struct {
	Mode ToolsMode `json:"mode,omitempty" yaml:"mode,omitempty"`
}

// Version is the resource autoupdate_version: what hosts are updated to.
type Version struct {
	Kind     string      `json:"kind" yaml:"kind"`
	Version  string      `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata    `json:"metadata" yaml:"metadata"`
	Spec     VersionSpec `json:"spec" yaml:"spec"`
}

// VersionSpec is the specification of a Version.
type VersionSpec struct {
	Agents VersionAgents `json:"agents" yaml:"agents"`
	Tools  VersionTools  `json:"tools,omitzero" yaml:"tools,omitempty"`
}

// VersionAgents is about agents.
type VersionAgents struct {
	// StartVersion is what new hosts install before the turn of their group;
	// the target where none is given.
	StartVersion Semver `json:"start_version,omitempty" yaml:"start_version,omitempty"`
	// TargetVersion is what hosts update to.
	TargetVersion Semver   `json:"target_version" yaml:"target_version"`
	Schedule      Schedule `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	Mode          Mode     `json:"mode,omitempty" yaml:"mode,omitempty"`
}

// VersionTools is about client tools.
type VersionTools struct {
	TargetVersion Semver `json:"target_version,omitempty" yaml:"target_version,omitempty"`
}

// NewConfig returns one that says nothing yet.
func NewConfig() *Config {
	return &Config{Kind: KindConfig, Version: apiVersion, Metadata: Metadata{Name: NameConfig}}
}

// NewVersion returns one that says nothing yet, which is not a valid one.
func NewVersion() *Version {
	return &Version{Kind: KindVersion, Version: apiVersion, Metadata: Metadata{Name: NameVersion}}
}

// GetKind implements Resource.
func (c *Config) GetKind() string { return KindConfig }

// GetMetadata implements Resource.
func (c *Config) GetMetadata() *Metadata { return &c.Metadata }

// GetKind implements Resource.
func (v *Version) GetKind() string { return KindVersion }

// GetMetadata implements Resource.
func (v *Version) GetMetadata() *Metadata { return &v.Metadata }

// Parse reads resources in YAML, several of them as several documents, or in JSON.
// What it returns has passed its Check.
func Parse(data []byte) ([]Resource, error) {
	nodes, err := documents(data)
	if err != nil {
		return nil, err
	}
	var list []Resource
	for i, node := range nodes {
		r, err := parse(node)
		if err != nil && len(nodes) > 1 {
			err = fmt.Errorf("document %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
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
	var r Resource
	switch kind {
	case KindConfig:
		r = new(Config)
	case KindVersion:
		r = new(Version)
	default:
		return nil, fmt.Errorf("kind: %.60q is not one of %s", kind, strings.Join(Kinds, ", "))
	}
	if err := decode(node, r); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// documents reads YAML, or JSON where the first character says so: not all JSON is
// taken by a reader of YAML.
func documents(data []byte) (nodes []*yaml.Node, err error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
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
		// What is between two separators and says nothing is no resource.
		if content := document.Content; len(content) == 1 && content[0].Tag != "!!null" {
			nodes = append(nodes, content[0])
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no resource in it")
	}
	return nodes, nil
}
