package survey

import (
	"fmt"
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
// store, by their names. It reads what each process executes, so runs of the timer do without it. With an
// error there may be more than it returns: a service could not be looked at.
func (s *Survey) Companions() ([]Companion, error) {
	return s.companions.get(func() (all []Companion, err error) {
		executables, err := s.from.Processes.Executables()
		if err != nil {
			return nil, err
		}
		for _, e := range executables {
			release, ours := s.from.Store.ReleaseOf(e.Path)
			if e.Hidden == nil && !ours {
				continue
			}
			unit := s.otherService(e.PID)
			switch {
			case unit == "":
			case ours:
				all = append(all, Companion{unit, e.PID, release})
			case err == nil:
				err = fmt.Errorf("what %s executes: %w", unit, e.Hidden)
			}
		}
		sortByUnit(all, func(c Companion) string { return c.Unit })
		return all, err
	})
}

// otherService is the service of a process; empty if it is the agent's or the updater's own, or there is none.
func (s *Survey) otherService(pid int) string {
	unit := s.from.Processes.ServiceOf(pid)
	if unit == s.from.Paths.AgentUnit() || strings.HasPrefix(unit, "teleport-update") {
		return ""
	}
	return unit
}

func sortByUnit[T any](all []T, unit func(T) string) {
	slices.SortStableFunc(all, func(a, b T) int { return strings.Compare(unit(a), unit(b)) })
}
