// Package find is the contract between a host and the endpoint that names
// the version of the agent to run, and the client of that endpoint.
//
// Two shapes of the answer are in use, and both are one JSON object. The flat
// one comes from RFD 0169 (§REST Endpoints):
//
//	server_edition               "oss", "enterprise" or "enterprise-fips"
//	agent_version                a semantic version, a leading "v" allowed; empty: the cluster names none
//	agent_autoupdate             whether a host that has the agent should update; missing means no
//	agent_update_jitter_seconds  how long a host may wait before it does; missing means 0
//	agent_group_unknown          the server has groups, and not the one that the host named; missing means no
//	retry_failed                 when a person last asked hosts to retry the version on which they failed (RFC 3339); missing means never
//	release_template             URL template of releases that the server offers; enable may show it, and nothing uses it
//
// The nested one is served by proxies with Managed Updates v2:
//
//	edition                                  "oss", "community" or "ent"
//	fips                                     with "ent": the FIPS build
//	auto_update.agent_version
//	auto_update.agent_auto_update
//	auto_update.agent_update_jitter_seconds
//
// An object with agent_version at its top is flat, and its auto_update is not
// looked at; server_edition wins over edition in either shape. Names are taken
// exactly as written, null counts as missing, and other fields are ignored.
// Anything else is an error: a host must not act on an answer that is only
// half understood. But a release_template that is no short printable text is ignored: no host
// acts on it, and a wrong one must not keep hosts from their version.
package find

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"teleport-update/internal/version"
)

// MaxJitter is the longest jitter that an answer may ask for. RFD 0169 allows an administrator one
// minute; nobody can mean more than a day.
const MaxJitter = 24 * time.Hour

// MaxReleaseTemplate is the largest length of a ReleaseTemplate, in bytes. Teleport's own has 130.
const MaxReleaseTemplate = 1 << 10

// Answer is find's answer to one host.
type Answer struct {
	// Version to run, without a leading "v". Empty: the cluster names none, and a host keeps its
	// version.
	Version string
	Edition version.Edition
	// AutoUpdate says whether a host that runs another version should update now. A new installation
	// ignores it and takes Version.
	AutoUpdate bool
	// Jitter bounds the random wait before an update: 0 to MaxJitter, in
	// whole seconds.
	Jitter time.Duration
	// GroupUnknown reports that the server has groups, and not the one that the host named.
	GroupUnknown bool
	// RetryFailed is the time at which a person last asked hosts to retry Version: a host on which it
	// failed before does not wait for the end of its back-off, once for each value. In UTC and whole
	// seconds; zero for never.
	RetryFailed time.Time
	// ReleaseTemplate is a URL template of releases that the server offers; empty: none. It is
	// printable and short, and nothing more was checked. Only a person may take it: hosts trust find
	// only for version, edition and time.
	ReleaseTemplate string
	// ToolsVersion is the version for client tools (tsh, tctl); if it is empty, they get Version. A
	// Client does not read it.
	ToolsVersion string
	// ToolsAutoUpdate says whether client tools update to it.
	ToolsAutoUpdate bool
}

// Check returns an error if the answer must not be served: a version that is neither empty nor
// semantic, an unknown edition, a jitter out of range.
func (a Answer) Check() error {
	for _, v := range []string{a.Version, a.ToolsVersion} {
		if v == "" {
			continue
		}
		parsed, err := version.Parse(v)
		if err != nil {
			return err
		}
		if parsed != v {
			return fmt.Errorf("version %q has a leading v", v)
		}
	}
	if _, err := version.ParseEdition(string(a.Edition)); err != nil {
		return err
	}
	if a.Jitter < 0 || a.Jitter > MaxJitter || a.Jitter%time.Second != 0 {
		return fmt.Errorf("jitter %s is not a whole number of seconds from 0 to %d", a.Jitter, MaxJitter/time.Second)
	}
	if !offerable(a.ReleaseTemplate) {
		return fmt.Errorf("the release template is longer than %d bytes, or not printable", MaxReleaseTemplate)
	}
	return nil
}

// Body returns the JSON that a server sends for the answer: both shapes in one object, so that
// updaters of either kind understand it. It has ToolsAutoUpdate under two names: the one in this
// project's documents and the one that shipped tools read. The error comes from Check.
func (a Answer) Body() ([]byte, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	var body struct {
		ServerEdition   version.Edition `json:"server_edition"`
		AgentVersion    string          `json:"agent_version"`
		AgentAutoUpdate bool            `json:"agent_autoupdate"`
		AgentJitter     int64           `json:"agent_update_jitter_seconds"`
		GroupUnknown    bool            `json:"agent_group_unknown,omitempty"`
		RetryFailed     time.Time       `json:"retry_failed,omitzero"`
		ReleaseTemplate string          `json:"release_template,omitempty"`
		Edition         string          `json:"edition"`
		FIPS            bool            `json:"fips"`
		AutoUpdate      struct {
			AgentVersion    string `json:"agent_version"`
			AgentAutoUpdate bool   `json:"agent_auto_update"`
			AgentJitter     int64  `json:"agent_update_jitter_seconds"`
			ToolsVersion    string `json:"tools_version"`
			ToolsAutoUpdate bool   `json:"tools_autoupdate"`
			ToolsUpdate     bool   `json:"tools_auto_update"`
		} `json:"auto_update"`
	}
	body.ServerEdition = a.Edition
	body.Edition, body.FIPS = "oss", a.Edition.FIPS()
	if a.Edition.Enterprise() {
		body.Edition = "ent"
	}
	body.AgentVersion = a.Version
	body.AgentAutoUpdate = a.AutoUpdate
	body.AgentJitter = int64(a.Jitter / time.Second)
	body.GroupUnknown, body.RetryFailed = a.GroupUnknown, a.RetryFailed
	body.ReleaseTemplate = a.ReleaseTemplate
	body.AutoUpdate.AgentVersion = body.AgentVersion
	body.AutoUpdate.AgentAutoUpdate = body.AgentAutoUpdate
	body.AutoUpdate.AgentJitter = body.AgentJitter
	body.AutoUpdate.ToolsVersion = cmp.Or(a.ToolsVersion, a.Version)
	body.AutoUpdate.ToolsAutoUpdate = a.ToolsAutoUpdate && body.AutoUpdate.ToolsVersion != ""
	body.AutoUpdate.ToolsUpdate = body.AutoUpdate.ToolsAutoUpdate
	return json.Marshal(body)
}
