package survey

import (
	"slices"
	"strings"

	"teleport-update/internal/version"
)

// Companion is a service beside the agent's that executes a program of a version.
type Companion struct {
	Unit string
	PID  int
	Runs version.Release
}

// Companions are the services, beside the agent's and the updater's own, that execute programs of the
// store, by their names. It reads what each process executes, so runs of the timer do without it.
func (s *Survey) Companions() ([]Companion, error) {
	return s.companions.get(func() (all []Companion, err error) {
		executables, err := s.from.Processes.Executables()
		if err != nil {
			return nil, err
		}
		for _, e := range executables {
			release, ours := s.from.Store.ReleaseOf(e.Path)
			if e.Hidden != nil || !ours {
				continue
			}
			unit := s.from.Processes.ServiceOf(e.PID)
			if unit == "" || unit == s.from.Paths.AgentUnit() || strings.HasPrefix(unit, "teleport-update") {
				continue
			}
			all = append(all, Companion{unit, e.PID, release})
		}
		slices.SortFunc(all, func(a, b Companion) int { return strings.Compare(a.Unit, b.Unit) })
		return all, nil
	})
}
