package survey

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Agent is the agent, as systemd and the kernel know it.
type Agent struct {
	transaction.Sight
	Process procfs.Process  // the process that serves; zero without one
	Runs    version.Release // the release that it executes; zero if that is not in the store
	Pending Pending         // changes of its next start
	Mask    string          // the link that masks the unit; empty if nothing does
	// Hidden is why it is not known what the process executes; nil if it is.
	Hidden error
}

func (s *Survey) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.from.Patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.from.Patience)
}

func (s *Survey) connected(ctx context.Context) (Manager, error) {
	return s.manager.get(func() (Manager, error) {
		ctx, cancel := s.limited(ctx)
		defer cancel()
		return s.from.Connect(ctx)
	})
}

// Agent looks at the agent.
func (s *Survey) Agent(ctx context.Context) (Agent, error) {
	return s.agent.get(func() (Agent, error) {
		m, err := s.connected(ctx)
		if err != nil {
			return Agent{}, err
		}
		ctx, cancel := s.limited(ctx)
		defer cancel()
		sight, err := m.Look(ctx)
		if err != nil {
			return Agent{}, err
		}
		return s.AgentOf(sight), nil
	})
}

// Unread reports whether files of a unit, the agent's or the recovery's, changed since systemd read them.
func (s *Survey) Unread(u systemd.Unit) bool { return s.from.Place.AgentUnit().Unread(u) }

// Outranking returns the file that systemd takes for the agent's unit once it reads all units again, instead of the one that
// it has loaded, and whether that is a mask; empty if it is the same.
func (s *Survey) Outranking(u systemd.Unit) (path string, masks bool) {
	return s.from.Place.AgentUnit().Outranking(u)
}

// IsOurs reports whether a file is the agent's unit that the updater manages, by whatever name.
func (s *Survey) IsOurs(file string) bool { return s.from.Place.IsUnit(file) }

// AboveOurs reports whether systemd takes a file instead of the updater's unit, and would take the updater's without the file.
func (s *Survey) AboveOurs(file string) bool { return s.from.Place.AboveOurs(file) }

// Needs says which unit that the agent's unit needs keeps systemd from starting it, or which file that the agent needs is closed to
// its user; nil if neither shows. It asks systemd for each of the units, and may ask the kernel by child processes. err is why that
// is not known.
func (s *Survey) Needs(ctx context.Context) (why, err error) {
	a, err := s.Agent(ctx)
	if err != nil {
		return nil, err
	}
	err = host.CheckNeeds(ctx, a.Unit, s.unit)
	switch {
	case failure.Is[*failure.RefusedError](err):
		return err, nil
	case err != nil:
		return nil, err
	}
	return s.reach.get(func() (why, err error) { return s.from.Reach(ctx, a.Unit, s.unit) })
}

// AgentOf returns the part of the agent that follows from a look at it.
func (s *Survey) AgentOf(sight transaction.Sight) Agent {
	a := Agent{Sight: sight, Pending: s.pending(sight)}
	if sight.LoadState == "masked" {
		a.Mask = systemd.MaskOf(s.from.Paths.AgentUnit())
	}
	if sight.State != state.AgentUnknown && sight.State != state.AgentStopped {
		a.Process = cmp.Or(sight.Serving, sight.Main)
		a.Runs, _ = s.from.Store.ReleaseOf(a.Process.Exe)
		if a.Process.PID == 0 && sight.MainPID != 0 {
			a.Hidden = s.from.Processes.Hidden(int(sight.MainPID))
		}
	}
	return a
}

// Configured reports whether the agent has a configuration where its unit leads it, at the end of all links. err is why that is not known.
func (s *Survey) Configured() (bool, error) {
	return s.configured.get(func() (bool, error) {
		config, err := s.from.Configuration.Path()
		if err != nil {
			return false, err
		}
		_, err = os.Stat(config)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return false, nil
		}
		return err == nil, err
	})
}

// AgentSettings returns the settings in the agent's configuration; none if that is missing. err is why the agent could not read it.
func (s *Survey) AgentSettings() (host.AgentSettings, error) {
	return s.settings.get(s.from.Configuration.Settings)
}

// Servers says how it shows that this host runs servers of the cluster itself; it is empty if nothing shows it.
func (s *Survey) Servers() (string, error) { return s.servers.get(s.from.Configuration.Servers) }

// pending is about the agent that serves. A difference that is not known is not pending.
func (s *Survey) pending(sight transaction.Sight) Pending {
	if sight.State != state.AgentRunning || len(sight.Command) == 0 {
		return Pending{}
	}
	started, ok := s.from.Processes.Started(cmp.Or(sight.Serving.PID, sight.Main.PID))
	if !ok {
		return Pending{}
	}
	uid, err := strconv.Atoi(cmp.Or(sight.User, "0"))
	if err != nil {
		account, err := user.Lookup(sight.User)
		if err != nil {
			return Pending{}
		}
		uid, _ = strconv.Atoi(account.Uid)
	}
	return pendingOf(sight.Unit, uid, started)
}

// Is reports whether the agent executes a release, as far as its edition is known.
func (a Agent) Is(r version.Release) bool {
	return a.Runs.Version == r.Version && (a.Runs.Edition == r.Edition || a.Runs.Edition == "" || r.Edition == "")
}

// unit returns what systemd knows of another unit than the agent's.
func (s *Survey) unit(ctx context.Context, name string) (systemd.Unit, error) {
	if s.units[name] == nil {
		s.units[name] = &part[systemd.Unit]{}
	}
	return s.units[name].get(func() (systemd.Unit, error) {
		m, err := s.connected(ctx)
		if err != nil {
			return systemd.Unit{}, err
		}
		ctx, cancel := s.limited(ctx)
		defer cancel()
		return m.Unit(ctx, name)
	})
}
