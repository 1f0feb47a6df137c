package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"teleport-update/internal/executable"
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

// StartsAgain says what would keep systemd from starting a service again that is restarted; nil if nothing shows.
// err is why that cannot be told.
func (s *Survey) StartsAgain(ctx context.Context, unit string) (why, err error) {
	u, err := s.unit(ctx, unit)
	if err != nil {
		return nil, err
	}
	unmet := u.Ties.Unmet(ctx)
	switch {
	case u.LoadState == "": // there is no systemd
		return nil, nil
	case u.LoadState != "loaded":
		return fmt.Errorf("systemd has no unit %s that it can start (%s)", unit, u.LoadState), nil
	case u.Ties.RefusesStop || u.Ties.RefusesStart:
		return fmt.Errorf("systemd refuses to restart %s when asked (RefuseManualStart=, RefuseManualStop=)", unit), nil
	case len(unmet) > 0:
		return fmt.Errorf("systemd would not start it, for %v does not hold now", unmet[0]), nil
	case u.ExecStart == "" || u.Ties.View.Root != "": // its files are not the host's
		return nil, nil
	}
	return executable.Why(u.ExecStart)
}
