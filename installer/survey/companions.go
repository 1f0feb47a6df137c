package survey

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// Companion is a service beside the agent's that executes a program of a version, or one that has since given way to such a program.
type Companion struct {
	Unit string
	PID  int
	Runs version.Release // the zero Release if Link is there
	// Link is the link by which the service was started when another program stood there, as before the first
	// enable; empty if the service executes a program of the store.
	Link string
}

// Companions returns the services, beside the agent's and the updater's own, that execute programs of the store, or
// were started by one of its links and execute something else, by their names. It looks at each process, so runs of the
// timer do without it. With an error there may be more than it returns: a service could not be looked at.
func (s *Survey) Companions() ([]Companion, error) {
	return s.companions.get(func() (all []Companion, err error) {
		links, err := s.from.Store.LinksInto(s.from.Paths.LinkDir)
		if err != nil {
			return nil, err
		}
		executables, err := s.from.Processes.Executables()
		if err != nil {
			return nil, err
		}
		for _, e := range executables {
			unit := s.otherService(e.PID)
			if unit == "" {
				continue
			}
			if e.Hidden != nil {
				if err == nil {
					err = fmt.Errorf("what %s executes: %w", unit, e.Hidden)
				}
				continue
			}
			if release, ours := s.from.Store.ReleaseOf(e.Path); ours {
				all = append(all, Companion{Unit: unit, PID: e.PID, Runs: release})
			} else if link := s.replacedAt(e, links); link != "" {
				all = append(all, Companion{Unit: unit, PID: e.PID, Link: link})
			}
		}
		sortByUnit(all, func(c Companion) string { return c.Unit })
		return all, err
	})
}

// replacedAt returns the link by which a process was started that executes another file than the link leads to, as a
// process that runs since before the first enable; empty if none of the links started it.
func (s *Survey) replacedAt(e procfs.Executable, links []string) string {
	command := ""
	if started, ok := s.from.Processes.Started(e.PID); ok && len(started.Command) > 0 {
		command = filepath.Clean(started.Command[0])
	}
	for _, link := range links {
		// The kernel names the file that stood there if it was no link itself.
		if command != link && e.Path != link {
			continue
		}
		linked, err := procfs.Identify(link, 0)
		if err == nil && linked == e.File || !s.from.Processes.SeesSame(e.PID, s.from.Paths.LinkDir) {
			return ""
		}
		return link
	}
	return ""
}

// otherService returns the service of a process; empty without one, or if it is the agent's or the updater's own.
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

// OtherAgent is a service beside the agent's that runs an agent by the program that the updater links: its version
// changes at its next start, and nobody takes a backup of its database or watches it.
type OtherAgent struct {
	Unit string
	PID  int
}

// OtherAgents returns these services, by their names. An agent by a program of its own, or in a container, is left out. It
// looks at each process, so runs of the timer do without it. With an error there may be more than it returns.
func (s *Survey) OtherAgents() ([]OtherAgent, error) {
	return s.otherAgents.get(func() (all []OtherAgent, err error) {
		executables, err := s.from.Processes.Executables()
		if err != nil {
			return nil, err
		}
		for _, e := range executables {
			unit := s.otherService(e.PID)
			switch {
			case unit == "" || slices.ContainsFunc(all, func(o OtherAgent) bool { return o.Unit == unit }):
			case e.Hidden != nil:
				if err == nil && s.from.Processes.Calls(e.PID, host.AgentName) {
					err = fmt.Errorf("what %s executes: %w", unit, e.Hidden)
				}
			case filepath.Base(e.Path) == host.AgentName && s.startsByLink(e):
				all = append(all, OtherAgent{unit, e.PID})
			}
		}
		sortByUnit(all, func(o OtherAgent) string { return o.Unit })
		return all, err
	})
}

// startsByLink reports whether a process was started as an agent by the link of the agent's program, or by the link's
// target, and would be started as such again.
func (s *Survey) startsByLink(e procfs.Executable) bool {
	started, ok := s.from.Processes.Started(e.PID)
	dir := s.from.Paths.LinkDir
	if !ok || !slices.Contains(started.Command, "start") || !s.from.Processes.SeesSame(e.PID, dir) {
		return false
	}
	link := filepath.Join(dir, host.AgentName)
	if linked, err := procfs.Identify(link, 0); err == nil && linked == e.File {
		return true
	}
	_, ours := s.from.Store.ReleaseOf(e.Path)
	return ours || filepath.Clean(started.Command[0]) == link
}
