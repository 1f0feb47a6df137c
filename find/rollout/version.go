package rollout

// Version is the resource autoupdate_version: what hosts are updated to. A change of
// start_version, target_version or schedule begins a new rollout; the mode acts at
// once.
//
//	kind: autoupdate_version
//	metadata: {name: autoupdate-version}
//	spec:
//	  agents:
//	    start_version: v17.2.0     # for new hosts before the turn of their group
//	    target_version: v17.2.1
//	    schedule: regular          # or critical, immediate; unset is regular
//	    mode: enabled              # see EffectiveMode
//	  tools: {target_version: v17.2.1}
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
	// StartVersion is for new hosts before the turn of their group. The default is the
	// target.
	StartVersion Semver `json:"start_version,omitempty" yaml:"start_version,omitempty"`
	// TargetVersion is what hosts update to.
	TargetVersion Semver   `json:"target_version" yaml:"target_version"`
	Schedule      Schedule `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	Mode          Mode     `json:"mode,omitempty" yaml:"mode,omitempty"`
}

// VersionTools is about client tools.
type VersionTools struct {
	// TargetVersion is for client tools. The default is the target of agents.
	TargetVersion Semver `json:"target_version,omitempty" yaml:"target_version,omitempty"`
}

// NewVersion returns an empty version. It needs a target to pass its Check.
func NewVersion() *Version {
	return &Version{Kind: KindVersion, Version: apiVersion, Metadata: Metadata{Name: NameVersion}}
}

// GetKind implements Resource.
func (v *Version) GetKind() string { return KindVersion }

// GetMetadata implements Resource.
func (v *Version) GetMetadata() *Metadata { return &v.Metadata }
