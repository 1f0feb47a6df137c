// Package installer changes the version of the Teleport agent on one host, as
// a transaction.
//
// A transaction begins with a journal on stable storage and ends when the
// journal is gone. Between the two, whatever happens (an error, a kill, a power
// cut), the journal says how to put the old version back, with its links, its
// unit and its database; once the new version is proven, it says how to finish.
// Every command that takes the update lock first closes a journal it finds.
//
// A version is proven when the agent held for the health window. What is not
// proven is undone, and remembered, so that the timer does not try it again at
// once.
//
// Rules come from RFD 0169; where this package differs, the comment at the
// place says why.
package installer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"teleport-update/internal/selinux"
	"teleport-update/internal/webclient"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// ScheduledVariable is set to 1 in the environment of a run that the timer
// started.
const ScheduledVariable = "TELEPORT_UPDATE_SCHEDULED"

// Installer carries what every command needs. All fields but Terminal are set
// by New; a test may replace them.
type Installer struct {
	Paths Paths
	Log   *slog.Logger
	// Terminal is where downloads draw a bar; nil means log lines instead.
	Terminal *os.File
	// Scheduled says that the timer started this run: it never waits for a
	// lock, and a lock that is taken is no failure.
	Scheduled bool
	// Command starts this program again: its path and global flags. A switch
	// runs in a unit of its own that way.
	Command []string
	// BuildVersion is what this program's build was stamped with; empty means
	// that nobody knows, and no other updater is newer.
	BuildVersion string
	// UserAgent names this program and its version to servers.
	UserAgent string
	// Labels are SELinux's, for the programs that come with a version.
	Labels selinux.Labels

	Now    func() time.Time
	Jitter func(limit time.Duration) time.Duration // a random part of limit
}

// New returns an Installer for the host's own clock.
func New(paths Paths, log *slog.Logger) *Installer {
	return &Installer{
		Paths:        paths,
		Log:          log,
		BuildVersion: ownVersion(),
		Labels:       selinux.HostLabels(),
		Now:          time.Now,
		Jitter: func(limit time.Duration) time.Duration {
			if limit <= 0 {
				return 0
			}
			return rand.N(limit)
		},
	}
}

// NeedsPersonError is a state of the host that the updater cannot mend by
// itself. The command that meets it exits with 4.
type NeedsPersonError struct{ Err error }

func (e *NeedsPersonError) Error() string { return e.Err.Error() }
func (e *NeedsPersonError) Unwrap() error { return e.Err }

// RefusedError is a change that would put the host at risk. Nothing was changed.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

func (i *Installer) store() *versions.Store { return versions.NewStore(i.Paths.Versions()) }

func (i *Installer) httpClient(caFile string) (*http.Client, error) {
	return webclient.New(webclient.Options{CAFile: caFile, UserAgent: i.UserAgent})
}

// agentDataDir is where the agent keeps its state: where its own configuration
// says, else our data folder. When that configuration cannot be read, nobody
// knows, and a guess would take the agent's database for absent.
func (i *Installer) agentDataDir() (string, error) {
	agent, err := readAgentSettings(i.Paths.AgentConfig)
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(agent.DataDir) {
		return agent.DataDir, nil
	}
	return i.Paths.DataDir, nil
}

func (i *Installer) database() (string, error) {
	dir, err := i.agentDataDir()
	return filepath.Join(dir, "proc", "sqlite.db"), err
}

func (i *Installer) patience() time.Duration {
	if i.Scheduled {
		return 0
	}
	return lockPatience
}

// lockUpdates takes the right to switch.
func (i *Installer) lockUpdates(ctx context.Context) (unlock func(), err error) {
	return lock(ctx, i.Paths.updateLock(), i.patience())
}

// open is how a command begins to change the host: it takes the update lock,
// clears away what others left, closes a switch that was cut off, and reads the
// configuration. The caller must give the lock back.
func (i *Installer) open(ctx context.Context) (c Config, unlock func(), err error) {
	if err := i.recoverApart(ctx); err != nil {
		return Config{}, nil, err
	}
	unlock, err = i.lockUpdates(ctx)
	if err != nil {
		return Config{}, nil, err
	}
	i.clearAway(ctx)
	if err = i.recoverLocked(ctx); err == nil {
		if !exists(i.Paths.Versions()) {
			// An uninstall was ended, and the lock went with all the rest.
			unlock()
			return i.open(ctx)
		}
		c, err = loadConfig(i.Paths.Config())
	}
	if err != nil {
		unlock()
		return Config{}, nil, err
	}
	if i.store().HasLeftovers() {
		// It may be long until something new comes and retention is due.
		i.retain(c)
	}
	return c, unlock, nil
}

// dial connects to systemd; nil where the host does not run it (an image build,
// a container): everything but the restart is done there.
func (i *Installer) dial(ctx context.Context) (*systemd.Conn, error) {
	conn, err := systemd.Dial(ctx)
	if errors.Is(err, systemd.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reach systemd: %w; nothing was changed", err)
	}
	return conn, nil
}

// units are the updater's own service, timer and recovery.
func (i *Installer) units() systemd.Units {
	u := systemd.Units{
		UnitDir: i.Paths.UnitDir,
		Binary:  i.Paths.Updater(),
		LinkDir: i.Paths.LinkDir,
		DataDir: i.Paths.DataDir,
	}
	if i.Paths.UnitDir != DefaultPaths().UnitDir {
		u.ConfigDir = i.Paths.UnitDir
	}
	return u
}

// active returns the tree that is linked according to updates.yaml; ok is false
// when there is none, or it is not whole.
func (i *Installer) active(c Config) (versions.Tree, bool, error) {
	if c.Spec.ActiveVersion == "" {
		return versions.Tree{}, false, nil
	}
	return i.store().Lookup(target{Version: c.Spec.ActiveVersion, Edition: c.Status.ActiveEdition})
}

// record changes the status in updates.yaml under the update lock.
func (i *Installer) record(ctx context.Context, change func(*Config)) error {
	unlock, err := lock(ctx, i.Paths.updateLock(), lockPatience)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return err
	}
	change(&c)
	return c.save(i.Paths.Config())
}

// exists reports whether a name is taken, by whatever.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
