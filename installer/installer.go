// Package installer has the commands, one file a verb: each looks at the host and at what the cluster wants, builds a request, has a
// transaction made of it, and reports the result. Package transaction changes the host.
//
// Rules come from RFD 0169; where this package differs, the comment at the
// place says why.
package installer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"teleport-update/health"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/selinux"
	"teleport-update/internal/webclient"
	"teleport-update/report"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// Installer carries what every command needs. All fields but Terminal are set
// by New; a test may replace them.
type Installer struct {
	Machine *transaction.Machine
	// Terminal is where downloads draw a bar, and a watch its countdown; nil means log
	// lines instead.
	Terminal fetch.Screen
	// BuildVersion is the version stamped into this program's build; empty means that it is unknown, and no other updater is newer.
	BuildVersion string
	// Version is this program's name for its version, for people; may be empty.
	Version string
	// UserAgent names this program and its version to servers.
	UserAgent string

	// MachineID is the path of this host's machine-id.
	MachineID string

	// Processes is the kernel's list of processes.
	Processes procfs.FS

	// Boot holds the records of systemd's mounts at boot.
	Boot survey.Boot

	// Up returns how long the host has been up, including sleep; nil: nobody knows.
	Up func() time.Duration

	// Started is when this run began; zero if nobody asked.
	Started      time.Time
	downloadTook time.Duration

	Jitter func(limit time.Duration) time.Duration // a random part of limit

	HookLimit time.Duration // how long one hook may take

	seen *survey.Survey // the last look of a run of update; nil if something was done since

	asked atomic.Pointer[askedWith]
}

// askedWith is the client of the last question to find. A report goes over the same connection: a handshake costs more than all the rest of
// a run with nothing to do.
type askedWith struct {
	client *http.Client
	caFile string
}

// drawWatch shows a person how long the agent is still watched. The next line of the log takes its place.
func (i *Installer) drawWatch(g health.Glance) {
	if i.Terminal == nil {
		return
	}
	text := fmt.Sprintf("  watching the agent: %s, %s left", g.Agent, g.Left.Round(time.Second))
	i.Terminal.Draw(text[:max(min(len(text), i.Terminal.Width()-1), 0)])
}

func (i *Installer) httpClient(caFile string) (*http.Client, error) {
	return webclient.New(webclient.Options{CAFile: caFile, UserAgent: i.UserAgent})
}

// reportClient returns the client that find was asked with, if the authorities are the same.
func (i *Installer) reportClient(caFile string) (*http.Client, error) {
	if asked := i.asked.Load(); asked != nil && asked.caFile == caFile {
		return asked.client, nil
	}
	return i.httpClient(caFile)
}

// reloadUnits has systemd read its files again.
func (i *Installer) reloadUnits(ctx context.Context) error {
	agent, err := i.Machine.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	return agent.DaemonReload(ctx)
}

// New returns an Installer for this host and its own clock. Command is the path and the global flags that start this program again.
func New(paths state.Paths, log *slog.Logger, command ...string) *Installer {
	store := versions.NewStore(paths.Versions())
	store.Programs = paths.Programs()
	h := &host.Host{Paths: paths, Store: store, Log: log, Labels: selinux.HostLabels()}
	if len(command) > 0 {
		h.Program = command[0]
	}
	i := &Installer{
		Machine: &transaction.Machine{
			Host:    h,
			Command: command,
			Now:     time.Now,
			BootID:  procfs.BootID,

			UserPatience: time.Minute,
		},
		BuildVersion: ownVersion(),
		MachineID:    report.MachineID,
		Processes:    procfs.Host(),
		Boot:         survey.HostBoot(),
		Up:           up,
		Started:      time.Now(),
		HookLimit:    hookLimit,
		Jitter: func(limit time.Duration) time.Duration {
			if limit <= 0 {
				return 0
			}
			return rand.N(limit)
		},
	}
	i.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		return transaction.HostAgent(ctx, paths.AgentUnit(), log, i.drawWatch)
	}
	i.Machine.Refetch = i.obtainer().refetch
	i.Machine.AskRescuer, i.Machine.OpenByName = i.Machine.Host.Rescuer, procfs.Host().OpenByName
	return i
}

// These hold a part of what every command needs, for code that needs no more. Each is made of the Installer's fields at that moment.

func (i *Installer) ownerRules() ownerRules { return ownerRules{i.Machine} }

func (i *Installer) finder() finder { return finder{i.Machine, i.httpClient, &i.asked, i.MachineID} }

func (i *Installer) obtainer() obtainer {
	return obtainer{i.Machine, i.ownerRules(), i.httpClient, i.Terminal, &i.downloadTook}
}

func (i *Installer) heartbeats() heartbeats {
	return heartbeats{i.Machine, i.ownerRules(), i.finder(), i.reportClient, i.MachineID}
}

func (i *Installer) chronicle() chronicle {
	return chronicle{i.Machine, i.Started, i.downloadTook}
}

// ownerRules asks the policy of the host's owner what may run on it.
type ownerRules struct{ m *transaction.Machine }

// finder asks find what this host should run.
type finder struct {
	m     *transaction.Machine
	http  func(caFile string) (*http.Client, error)
	asked *atomic.Pointer[askedWith]

	machineID string
}

// obtainer puts releases on disk, and removes releases that nothing needs.
type obtainer struct {
	m      *transaction.Machine
	rules  ownerRules
	http   func(caFile string) (*http.Client, error)
	screen fetch.Screen   // nil means log lines
	took   *time.Duration // the time of downloads
}

// heartbeats report to the find server how this host does.
type heartbeats struct {
	m         *transaction.Machine
	rules     ownerRules
	finder    finder
	http      func(caFile string) (*http.Client, error)
	machineID string
}

// chronicle adds to the history of this host.
type chronicle struct {
	m       *transaction.Machine
	started time.Time
	took    time.Duration // of downloads
}

// tick is one run of update, and what runs of the timer remember of each other. A person's command is not remembered: that person reads its
// errors.
type tick struct {
	i       *Installer
	memory  state.Ticks
	fetches *wanted // the release that it asked the mirrors for
	waits   bool    // it asked none, because it is not time yet
	now     *survey.Survey
}

// host returns the survey of the host since the run last waited, for a lock, a download or a transaction. Its parts are read once.
func (t *tick) host() *survey.Survey {
	if t.now == nil {
		t.now = t.i.survey()
	}
	return t.now
}

// waited is called after each wait: the host may have changed.
func (t *tick) waited() {
	if t.now != nil {
		t.now.Close()
		t.now = nil
	}
}

// over hands the last look at the agent to Settle, if there was one since the run last waited.
func (t *tick) over() {
	t.i.seen, t.now = t.now, nil
}

// report reports to the find server how this host does.
func (t *tick) report(ctx context.Context) {
	if c, err := t.host().Config(); err == nil { // else others have said so
		t.i.heartbeats().report(ctx, c, nil)
	}
}

func (i *Installer) beginTick() *tick {
	if i.Machine.Scheduled {
		i.Processes.LetGoOfProgram() // the pages that initialised packages
	}
	return &tick{i: i, memory: i.ticks()}
}

// tidy removes old versions that nothing needs.
func (t *tick) tidy(ctx context.Context) {
	if c, err := t.host().Config(); err == nil {
		t.i.obtainer().tidy(ctx, c)
	}
}

// foresee looks for all known obstacles to a change, before a version is fetched for it.
func foresee(ctx context.Context, m *transaction.Machine, c state.Config, r transaction.Request) error {
	flight, err := m.Preflight(ctx)
	if err != nil {
		return err
	}
	defer flight.Close()
	return flight.Ask(ctx, c, r, transaction.Change)
}

// transact has a transaction made, in a unit of its own if systemd runs.
func (i *Installer) transact(ctx context.Context, r transaction.Request) error {
	c, err := i.survey().Config()
	if err != nil {
		return err
	}
	if refusal := i.ownerRules().allowTransaction(c, r); refusal != nil {
		return refusal
	}
	if err := transaction.CheckRun(transaction.SystemdRun); err != nil {
		return err
	}
	if servers, err := host.ConfigurationOn(i.Machine.Host).Servers(); err == nil && servers != "" {
		i.Machine.Host.Log.Warn(decision.ServersUnsaved, "shown_by", servers)
	}
	end := i.heartbeats().reportBeginning(ctx, c, r)
	err = i.Machine.DoTransient(ctx, transaction.Order{Transaction: &r}, "Switch the Teleport agent to "+r.To.String())
	end()
	if c, err := i.survey().Config(); err == nil { // else others have said so
		i.heartbeats().report(ctx, c, nil)
	}
	return err
}
