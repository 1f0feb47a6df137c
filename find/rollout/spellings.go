package rollout

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The output of "tctl get" and examples from the documents of Managed Updates are valid
// input: lists of resources, metadata.id and expires without a meaning here, another
// server's revision, and no metadata if there is only one such resource.

// flat takes resources out of lists.
func flat(nodes []*yaml.Node) (list []*yaml.Node) {
	for _, node := range nodes {
		if node.Kind == yaml.SequenceNode {
			list = append(list, flat(node.Content)...)
			continue
		}
		list = append(list, node)
	}
	return list
}

// field returns the value of a field of a mapping, or nil.
func field(node *yaml.Node, name string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// plain removes the fields of the metadata that come from another server.
func plain(node *yaml.Node) {
	metadata := field(node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(metadata.Content); i += 2 {
		key, value := metadata.Content[i], metadata.Content[i+1]
		if !foreign(key.Value, value) {
			kept = append(kept, key, value)
		}
	}
	metadata.Content = kept
}

func foreign(name string, value *yaml.Node) bool {
	switch name {
	case "id":
		return value.Kind == yaml.ScalarNode
	case "expires":
		return value.Tag == "!!null"
	case "revision":
		_, err := strconv.ParseInt(value.Value, 10, 64)
		_, isUUID := ParseUUID(value.Value)
		return err != nil && isUUID
	}
	return false
}

// The spellings of RFD 0169 (§Scheduling) are taken as input, and kept and printed
// as the resources that they mean:
//
//	kind: cluster_autoupdate_config        kind: autoupdate_config, and the name may be missing
//	spec.agent_autoupdate: true            spec.agents.mode: enabled; false: disabled
//	spec.agent_group_schedules             spec.agents.schedules, with the defaults days "*" and start_hour 0
//	spec.agent_default_schedules           a last group named default, and schedules.immediate
//	spec.agent_version                     spec.agents.target_version
//	spec.agent_version_schedule            spec.agents.schedule
//
// It is an error to set a value in both spellings.

const kindRFDConfig = "cluster_autoupdate_config"

// defaultGroup is the name of the group for agent_default_schedules.
const defaultGroup = "default"

type configInput struct {
	Kind     string          `yaml:"kind"`
	Version  string          `yaml:"version"`
	Metadata Metadata        `yaml:"metadata"`
	Spec     configInputSpec `yaml:"spec"`
}

type configInputSpec struct {
	Agents           ConfigAgents      `yaml:"agents"`
	Tools            ConfigTools       `yaml:"tools"`
	AutoUpdate       *bool             `yaml:"agent_autoupdate"`
	GroupSchedules   *groupSchedules   `yaml:"agent_group_schedules"`
	DefaultSchedules *defaultSchedules `yaml:"agent_default_schedules"`
}

type groupSchedules struct {
	Regular  []Group `yaml:"regular"`
	Critical []Group `yaml:"critical"`
}

type defaultSchedules struct {
	Regular   *defaultSchedule   `yaml:"regular"`
	Critical  *defaultSchedule   `yaml:"critical"`
	Immediate *ImmediateSchedule `yaml:"immediate"`
}

type defaultSchedule struct {
	Days          []Day `yaml:"days"`
	StartHour     *int  `yaml:"start_hour"`
	JitterSeconds *int  `yaml:"jitter_seconds"`
}

// group returns the last group of a schedule, in a list of one.
func (s *defaultSchedule) group() []Group {
	if s == nil {
		return nil
	}
	return []Group{{Name: defaultGroup, Days: s.Days, StartHour: s.StartHour, JitterSeconds: s.JitterSeconds}}
}

func parseConfig(node *yaml.Node) (*Config, error) {
	var in configInput
	unread := decode(node, &in)
	c, err := in.config()
	if err = following(unread, err); err != nil {
		return nil, err
	}
	return c, nil
}

// config returns the autoupdate_config for the input.
func (in configInput) config() (*Config, error) {
	c := &Config{Kind: KindConfig, Version: in.Version, Metadata: in.Metadata, Spec: ConfigSpec{Agents: in.Spec.Agents, Tools: in.Spec.Tools}}
	spec, agents := in.Spec, &c.Spec.Agents
	if c.Metadata.Name == "" {
		c.Metadata.Name = NameConfig // there is no other
	}
	if spec.AutoUpdate != nil {
		if agents.Mode != "" {
			return nil, errors.New("spec.agent_autoupdate: it is set twice: spec.agents.mode sets it, too")
		}
		agents.Mode = Disabled
		if *spec.AutoUpdate {
			agents.Mode = Enabled
		}
	}
	if spec.GroupSchedules == nil && spec.DefaultSchedules == nil {
		return c, c.Check()
	}
	if agents.Schedules.Regular != nil || agents.Schedules.Critical != nil || agents.Schedules.Immediate != nil {
		return nil, errors.New("spec.agents.schedules: they are set twice: spec.agent_group_schedules or " +
			"spec.agent_default_schedules sets them, too")
	}
	var groups groupSchedules
	if spec.GroupSchedules != nil {
		groups = *spec.GroupSchedules
	}
	var others defaultSchedules
	if spec.DefaultSchedules != nil {
		others = *spec.DefaultSchedules
	}
	agents.Schedules = Schedules{
		Regular:   rfdGroups(groups.Regular, others.Regular.group()),
		Critical:  rfdGroups(groups.Critical, others.Critical.group()),
		Immediate: others.Immediate,
	}
	return c, c.check(func(schedule string, i int) string {
		named := groups.Regular
		if schedule == "critical" {
			named = groups.Critical
		}
		if i >= len(named) {
			return "spec.agent_default_schedules." + schedule
		}
		return fmt.Sprintf("spec.agent_group_schedules.%s[%d]", schedule, i)
	})
}

// rfdGroups sets the defaults of RFD 0169: every day, from midnight.
func rfdGroups(lists ...[]Group) (all []Group) {
	for _, list := range lists {
		for _, g := range list {
			if len(g.Days) == 0 {
				g.Days = []Day{EveryDay}
			}
			if g.StartHour == nil {
				g.StartHour = new(int)
			}
			all = append(all, g)
		}
	}
	return all
}

type versionInput struct {
	Kind     string           `yaml:"kind"`
	Version  string           `yaml:"version"`
	Metadata Metadata         `yaml:"metadata"`
	Spec     versionInputSpec `yaml:"spec"`
}

type versionInputSpec struct {
	Agents          VersionAgents `yaml:"agents"`
	Tools           VersionTools  `yaml:"tools"`
	AgentVersion    Semver        `yaml:"agent_version"`
	VersionSchedule Schedule      `yaml:"agent_version_schedule"`
}

func parseVersion(node *yaml.Node) (*Version, error) {
	var in versionInput
	unread := decode(node, &in)
	v, err := in.resource()
	if err = following(unread, err); err != nil {
		return nil, err
	}
	return v, nil
}

// resource returns the autoupdate_version for the input.
func (in versionInput) resource() (*Version, error) {
	v := &Version{Kind: in.Kind, Version: in.Version, Metadata: in.Metadata, Spec: VersionSpec{Agents: in.Spec.Agents, Tools: in.Spec.Tools}}
	agents := &v.Spec.Agents
	if v.Metadata.Name == "" {
		v.Metadata.Name = NameVersion // there is no other
	}
	if in.Spec.AgentVersion != "" || in.Spec.VersionSchedule != "" {
		if agents.TargetVersion != "" || agents.Schedule != "" {
			return nil, errors.New("spec.agent_version: the version is set twice: spec.agents sets it, too")
		}
		agents.TargetVersion, agents.Schedule = in.Spec.AgentVersion, in.Spec.VersionSchedule
	}
	return v, v.Check()
}
