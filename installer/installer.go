// Package installer has the commands, one file a verb: each looks at the host and
// at what the cluster wants, builds a request, has a transaction made of it, and
// tells what came of it. Package transaction changes the host.
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
	// BuildVersion is what this program's build was stamped with; empty means
	// that nobody knows, and no other updater is newer.
	BuildVersion string
	// Version is what this program calls its version, for people; empty if it does not.
	Version string
	// UserAgent names this program and its version to servers.
	UserAgent string

	// MachineID is where this host has its machine-id.
	MachineID string

	// Processes is where the kernel tells of them.
	Processes procfs.FS

	// Boot is where it is written what systemd mounts at boot.
	Boot survey.Boot

	// Up is for how long the host has been up, also while it slept; nil: nobody knows.
	Up func() time.Duration

	// Started is when this run began; zero if nobody asked.
	Started      time.Time
	downloadTook time.Duration

	Jitter func(limit time.Duration) time.Duration // a random part of limit

	HookLimit time.Duration // how long one hook may take

	seen *survey.Survey // the last look of a run of update; nil if something was done since

	asked atomic.Pointer[askedWith]
}

// askedWith is what find was last asked with. A report goes over the same connection: a handshake costs more than
// all the rest of a run with nothing to do.
type askedWith struct {
	client *http.Client
	caFile string
}

// drawWatch has a person see how long the agent is still watched. The next line of the
// log takes its place.
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

// reportClient is the client that find was asked with, where the authorities are the same.
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

// New returns an Installer for this host and its own clock. Command starts this
// program again: its path and global flags.
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

// A part of what every command needs, for those who need no more than that. Each is made of what
// the Installer has at that moment.

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

// obtainer puts releases on disk, and takes away those that nothing needs.
type obtainer struct {
	m      *transaction.Machine
	rules  ownerRules
	http   func(caFile string) (*http.Client, error)
	screen fetch.Screen   // nil means log lines
	took   *time.Duration // what downloads took
}

// heartbeats tell the find server how this host does.
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

// tick is one run of update, and what runs of the timer remember of each other. Only
// theirs count: what a person's command fails with, that person reads.
type tick struct {
	i       *Installer
	memory  state.Ticks
	fetches *wanted // what it asked the mirrors for
	waits   bool    // it did not, for it is not time yet
	now     *survey.Survey
}

// host is the host as it is since the run last waited, for a lock, a download or a transaction: one
// survey, whose parts are read once.
func (t *tick) host() *survey.Survey {
	if t.now == nil {
		t.now = t.i.survey()
	}
	return t.now
}

// waited is called after each wait: the host may be another since.
func (t *tick) waited() {
	if t.now != nil {
		t.now.Close()
		t.now = nil
	}
}

// over has Settle go on with the last look at the agent, if there was one since the run last waited.
func (t *tick) over() {
	t.i.seen, t.now = t.now, nil
}

// report has the find server hear how this host does.
func (t *tick) report(ctx context.Context) {
	if c, err := t.host().Config(); err == nil { // else others have said so
		t.i.heartbeats().report(ctx, c, nil)
	}
}

func (i *Installer) beginTick() *tick {
	if i.Machine.Scheduled {
		i.Processes.LetGoOfProgram() // what was needed to initialise packages
	}
	return &tick{i: i, memory: i.ticks()}
}

// tidy removes old versions that nothing needs.
func (t *tick) tidy(ctx context.Context) {
	if c, err := t.host().Config(); err == nil {
		t.i.obtainer().tidy(ctx, c)
	}
}

// foresee asks all that is known to be in the way of a change before a version is fetched for it.
func foresee(ctx context.Context, m *transaction.Machine, c state.Config, r transaction.Request) error {
	flight, err := m.Preflight(ctx)
	if err != nil {
		return err
	}
	defer flight.Close()
	return flight.Ask(ctx, c, r, transaction.Change)
}

// transact has a transaction made, in a unit of its own where systemd runs.
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
