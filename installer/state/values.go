package state

import (
	"cmp"

	"teleport-update/internal/duration"
	"teleport-update/internal/version"
)

// unknown are the fields that this program does not know. Each part of updates.yaml
// has them: a newer program may have written there.
type unknown map[string]any

// Duration is a duration in the form of updates.yaml.
type Duration = duration.Duration

// Tree is a release as it is on this host.
type Tree struct {
	version.Release
	SHA256 string `json:"sha256"`
	Dir    string `json:"dir"`
	// Programs is the folder of its bin and etc; empty if that is Dir.
	Programs string `json:"programs,omitempty"`
}

// ProgramsDir is the folder that it is executed from.
func (t Tree) ProgramsDir() string { return cmp.Or(t.Programs, t.Dir) }

func (t Tree) String() string { return t.Short() }

// Package is a package of the host's package manager.
type Package struct {
	Kind    string `json:"kind" yaml:"kind"` // "deb" or "rpm"
	Name    string `json:"name" yaml:"name"`
	Version string `json:"version" yaml:"version"`
}

func (p Package) String() string { return p.Name + " " + p.Version }
