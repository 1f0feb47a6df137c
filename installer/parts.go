package installer

import (
	"net/http"
	"sync/atomic"
	"time"

	"teleport-update/installer/transaction"
	"teleport-update/versions/fetch"
)

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
