package state

import (
	"cmp"
	"fmt"
	"time"

	"teleport-update/internal/version"
)

// unknown are the fields that this program does not know. Each part of updates.yaml
// has them: a newer program may have written there.
type unknown map[string]any

// Duration is a time.Duration written as text, as in 30s or 720h.
type Duration time.Duration

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 30s or 720h", text)
	}
	if v < 0 {
		return fmt.Errorf("the duration %s is negative", v)
	}
	*d = Duration(v)
	return nil
}

// Tree is a release as it is on this host.
type Tree struct {
	version.Release
	SHA256 string `json:"sha256"`
	Dir    string `json:"dir"`
	// Programs is the folder of its bin and etc; empty where that is Dir.
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
