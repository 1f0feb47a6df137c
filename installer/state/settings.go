package state

import (
	"strconv"

	"teleport-update/health/settings"
)

// HealthSpec bounds the health watch.
type HealthSpec struct {
	settings.Settings `yaml:",inline"`
	Unknown           unknown `yaml:",inline" json:"-"`
}

// Given is a setting with the text that a person gave for it.
type Given struct {
	settings.Row[Spec]
	Text string
}

// Settings returns the settings that flags of enable set in updates.yaml, one row each, in the order of the help.
func Settings() (all []settings.Row[Spec]) {
	for _, r := range settings.All {
		all = append(all, settings.Row[Spec]{Flag: r.Flag, Usage: r.Usage, Default: r.Default, Plain: r.Plain,
			Set: func(s *Spec, text string) error { return r.Set(&s.Health.Settings, text) }})
	}
	return append(all, settings.Row[Spec]{Flag: "no-cluster-report", Plain: true,
		Usage: "keep the agent from reporting its updates to its cluster; =false lets it report again",
		Set: func(s *Spec, text string) (err error) {
			s.NoClusterReport, err = strconv.ParseBool(text)
			return err
		}})
}
