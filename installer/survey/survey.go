// Package survey is the host as it is now, as one value. Its parts are read when they are first
// asked for, each of them once: all decisions and reports by one survey are about one host.
//
// Reading changes nothing. A part that cannot be read is an error with its cause, which is
// neither "there" nor "not there".
package survey

import (
	"context"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// StateFiles are the records of the updater.
type StateFiles interface {
	Config() (state.Config, error)
	// Journal is the open transaction; nil without one.
	Journal() (*transaction.Description, error)
	Ticks() state.Ticks
	History() (state.History, error)
}

// Manager is systemd. Its calls end with an error if it does not answer; if no systemd runs, units
// are zero, and the agent is unknown.
type Manager interface {
	Look(context.Context) (transaction.Sight, error)
	Unit(ctx context.Context, name string) (systemd.Unit, error)
	// Blockers returns units that a job of the agent's waits for.
	Blockers(context.Context, transaction.Sight) ([]string, error)
	Close()
}

// Place is the host's places of the agent's links and unit.
type Place interface {
	Problems(versions.Tree) ([]string, error)
	CheckStarts(systemd.Unit, versions.Tree) error
	CheckNextStart(ctx context.Context, u systemd.Unit, database string) error
	CheckDatabaseThere(pid int, had bool) error
	AgentUnit() host.AgentUnit
	// IsUnit reports whether a path is the agent's unit that the updater manages, by whatever name.
	IsUnit(path string) bool
	// AboveOurs reports whether a file ranks above that unit, which is there.
	AboveOurs(path string) bool
}

// Configuration is the agent's configuration, at the path that its unit leads to.
type Configuration interface {
	Path() (string, error)
	// Settings returns an error if the agent could not read the file. A missing file has no settings.
	Settings() (host.AgentSettings, error)
	// Servers says how it shows that this host runs servers of the cluster itself.
	Servers() (string, error)
}

// Updater is the updater's own part of the host.
type Updater interface {
	OwnUnits() systemd.Units
	// CheckOthersCame is about another updater that manages the same agent.
	CheckOthersCame() *failure.Error
	// CheckRecovery is about the unit of the recovery at boot, as systemd has it.
	CheckRecovery(context.Context, systemd.Unit) *failure.Error
	// CheckLimits is about when systemd ends one of the updater's own units.
	CheckLimits(systemd.Unit) *failure.Error
	// Rescuer runs the program of the recovery at boot.
	Rescuer(context.Context) (program string, schema int, err error)
}

// Consistency says how records and host fit.
type Consistency interface {
	CheckNeverEnabled() error
	CheckEnded(context.Context, state.Config, transaction.Seen) error
	// CheckPair returns a *failure.RefusedError if a repair leaves links and unit as they are.
	CheckPair(context.Context, state.Config, versions.Tree, transaction.Seen) error
	// CheckLed returns a *failure.RefusedError if a repair leaves the unit as it is.
	CheckLed(context.Context, versions.Tree, transaction.Seen) error
	// CheckTables says why the active version may not be able to start on the database of an agent that is down; err is why
	// that is not known.
	CheckTables(context.Context, state.Config, transaction.Seen) (why, err error)
	// Schema returns the digest of the schema of the agent's database; empty if there is no database.
	Schema(context.Context) (string, error)
}

// Sources are the places that a survey reads.
type Sources struct {
	StateFiles StateFiles
	Connect    func(context.Context) (Manager, error)
	// Reach says which file that the agent needs is closed to the user of its unit; err is why that is not known.
	Reach         func(context.Context, systemd.Unit, host.AskUnit) (why, err error)
	Place         Place
	Configuration Configuration
	Updater       Updater
	Fits          Consistency
	Store         *versions.Store
	Processes     procfs.FS
	Boot          Boot
	Paths         state.Paths
	Now           func() time.Time
	// Patience is how long to wait for systemd at each question; zero is as long as the context says.
	Patience time.Duration
}

// Survey is the host, as it was when each part was first asked for. It is for one goroutine.
type Survey struct {
	from Sources

	config     part[state.Config]
	journal    part[*Transaction]
	ticks      part[state.Ticks]
	history    part[state.History]
	manager    part[Manager]
	agent      part[Agent]
	delay      part[Delay]
	configured part[bool]
	settings   part[host.AgentSettings]
	servers    part[string]
	units      map[string]*part[systemd.Unit]
	version    part[Version]
	damage     part[error]
	links      part[[]string]
	starts     part[error]
	nextStart  part[error]
	reach      part[error]
	own        part[Own]
	others     part[*failure.Error]
	rescuer    part[string]
	fits       part[error]
	pair       part[error]
	schema     part[string]
	boot       part[[]Late]
	kept       map[version.Release]*part[bool]
	companions part[[]Companion]

	otherAgents part[[]OtherAgent]

	ticksRead time.Time
}

// New returns a survey that has read nothing so far.
func New(from Sources) *Survey {
	return &Survey{from: from, units: map[string]*part[systemd.Unit]{}, kept: map[version.Release]*part[bool]{}}
}

// Follow makes a survey that has read nothing begin with another survey's recent sight of the agent, and go on with its
// connection to systemd. Nothing may have been done to the agent since.
func (s *Survey) Follow(before *Survey) {
	if before.manager.err == nil && before.agent.read && before.agent.err == nil {
		s.manager, s.agent = before.manager, before.agent
		before.manager = part[Manager]{}
	}
}

// Close ends the connection to systemd, if there is one.
func (s *Survey) Close() {
	if s.manager.value != nil {
		s.manager.value.Close()
	}
}

// Now returns the time of the survey's host.
func (s *Survey) Now() time.Time { return s.from.Now() }

// Paths say where everything is.
func (s *Survey) Paths() state.Paths { return s.from.Paths }

// Config returns updates.yaml; an empty one if there is no file.
func (s *Survey) Config() (state.Config, error) { return s.config.get(s.from.StateFiles.Config) }

// Ticks returns what the runs of the timer remember of this boot.
func (s *Survey) Ticks() state.Ticks {
	t, _ := s.ticks.get(func() (state.Ticks, error) {
		s.ticksRead = s.Now()
		return s.from.StateFiles.Ticks(), nil
	})
	return t
}

// TicksRead returns when Ticks were read: a run that ends later leaves no trace in them.
func (s *Survey) TicksRead() time.Time {
	s.Ticks()
	return s.ticksRead
}

// History returns the last transactions.
func (s *Survey) History() (state.History, error) { return s.history.get(s.from.StateFiles.History) }

// Transaction is a transaction that is open.
type Transaction struct {
	transaction.Description
	Running bool         // an updater is at work on it
	Full    *space.Error // the file system that is too full for a run to close it; nil if none is
}

// Transaction returns the open transaction; nil without one.
func (s *Survey) Transaction() (*Transaction, error) {
	return s.journal.get(func() (*Transaction, error) {
		d, err := s.from.StateFiles.Journal()
		if d == nil || err != nil {
			return nil, err
		}
		full := transaction.FullFor(&d.Journal, s.from.Paths, transaction.SystemdRun)
		return &Transaction{*d, s.from.Processes.Locked(s.from.Paths.UpdateLock()), full}, nil
	})
}

// Fits says how the records do not fit the host, as far as that is known; nil if nothing speaks against
// them. err is why the database of an agent that is down could not be looked at.
func (s *Survey) Fits(ctx context.Context) (why, err error) {
	return s.fits.get(func() (error, error) {
		c, err := s.Config()
		if err != nil {
			return nil, nil // a caller that needs the file reports that
		}
		if c.Spec.ActiveVersion == "" {
			return s.from.Fits.CheckNeverEnabled(), nil
		}
		if why := s.from.Fits.CheckEnded(ctx, c, seen{s}); why != nil {
			return why, nil
		}
		if _, blind := s.Agent(ctx); blind != nil {
			return nil, nil // checks of the agent say so
		}
		ctx, cancel := s.limited(ctx)
		defer cancel()
		return s.from.Fits.CheckTables(ctx, c, seen{s})
	})
}

// Schema returns the digest of the schema of the agent's database; empty if there is no database.
func (s *Survey) Schema(ctx context.Context) (string, error) {
	return s.schema.get(func() (string, error) { return s.from.Fits.Schema(ctx) })
}

// seen makes a check use what the survey has seen.
type seen struct{ survey *Survey }

// Seen returns the survey for a check that asks for no more of the host.
func (s *Survey) Seen() transaction.Seen { return seen{s} }

func (s seen) Sight(ctx context.Context) (transaction.Sight, error) {
	a, err := s.survey.Agent(ctx)
	return a.Sight, err
}

func (s seen) Schema(ctx context.Context) (string, error) { return s.survey.Schema(ctx) }

// part is a part of the survey, which is read once.
type part[T any] struct {
	read  bool
	value T
	err   error
}

func (p *part[T]) get(read func() (T, error)) (T, error) {
	if !p.read {
		p.read = true
		p.value, p.err = read()
	}
	return p.value, p.err
}
