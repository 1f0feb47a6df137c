package host

import (
	"context"
	"path/filepath"
	"slices"

	"teleport-update/installer/state"
	"teleport-update/systemd"
	"teleport-update/systemd/canary"
)

// Service returns the agent's unit and its drop-ins as they are.
func (a AgentUnit) Service() (canary.Service, error) { return a.service(a.paths.AgentUnit()) }

// RecoveryService is Service for the recovery at boot.
func (a AgentUnit) RecoveryService() (canary.Service, error) { return a.service(a.own.Recovery()) }

func (a AgentUnit) service(name string) (s canary.Service, err error) {
	s.Name = name
	s.Unit, s.After, err = systemd.FilesOf(name, a.dirs())
	return s, err
}

// ServiceWith is Service once a version's unit is in its place. A unit of lowerDirs ranks below it, and any other unit above it.
func (a AgentUnit) ServiceWith(to state.UnitFile) (canary.Service, error) {
	s, err := a.Service()
	lower := slices.Contains(lowerDirs(a.paths.UnitDir), filepath.Dir(s.Unit.Path))
	if s.Unit.Path == "" || s.Unit.Path == to.Path || lower {
		s.Unit = systemd.File{Path: to.Path, Content: to.Content}
	}
	return s, err
}

// MayBring reports whether something that systemd starts before the agent's process may bring what is missing now: a service that does
// not run, or a command with full privileges. Then a canary that does not start says nothing.
func MayBring(ctx context.Context, u systemd.Unit, ask AskUnit) (bool, error) {
	if u.Ties.Startup.Privileged {
		return true, nil
	}
	service, err := startsFirst(ctx, u, ask)
	return service != "", err
}
