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
	"net/http"
	"sync/atomic"
	"time"

	"teleport-update/health"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/webclient"
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
