package transaction

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// Kind says what a transaction is for; it decides which changes of the configuration,
// made while the version was being fetched, call it off.
type Kind string

const (
	Update    Kind = "update"
	Downgrade Kind = "downgrade"
	Enable    Kind = "enable"
	Pin       Kind = "pin"
	Rollback  Kind = "rollback"
)

// Automatic kinds stop being wanted when a person disables or pins.
func (k Kind) Automatic() bool { return k == Update || k == Downgrade }

// Request is a transaction that a command asks for. Until the version is on disk, only
// its name is known of To.
type Request struct {
	Kind       Kind            `json:"kind"`
	From       version.Release `json:"from"` // the zero Release before the first enable
	To         state.Tree      `json:"to"`
	Spec       *state.Spec     `json:"spec,omitempty"` // configuration to commit with the version; nil keeps what is there
	Held       *state.Held     `json:"held,omitempty"`
	Now        bool            `json:"now,omitempty"` // in spite of a failure of this version
	SkipBackup bool            `json:"skip_backup,omitempty"`
	Restart    bool            `json:"restart,omitempty"` // not a reload, by a person's word
	Replace    bool            `json:"replace,omitempty"` // the updater that the host has
	Force      bool            `json:"force,omitempty"`   // a downgrade without a valid backup of the target
	// BelowMinimum means that root wants the version although the policy of the host's owner is against it.
	BelowMinimum bool `json:"below_minimum,omitempty"`
}

// Order is the second half of a command. It crosses a process boundary as
// JSON on standard input, because templates may carry credentials and arguments can be read by
// anybody. An upgrade of the package may have exchanged the program in between, so it says which
// programs may act on it, as the journal does.
type Order struct {
	state.Head
	Transaction *Request `json:"switch,omitempty"`
}

// ReadOrder reads the order of another process of this program. A *failure.RefusedError means that
// the order is a newer program's.
func ReadOrder(r io.Reader) (Order, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return Order{}, err
	}
	var o Order
	err = state.Decode(data, &o)
	if newer, ok := errors.AsType[*state.NewerError](err); ok {
		return Order{}, failure.Unchanged("an older teleport-update took the place of this one during the transaction: %v", newer).
			To("run the command again").Refused()
	}
	if err == nil && o.Transaction == nil {
		err = errors.New("it asks for nothing")
	}
	if err != nil {
		return Order{}, fmt.Errorf("read the request: %w; this command is for teleport-update itself", err)
	}
	return o, nil
}

// checked is a request that passed check, as of now: only check makes one, under the update lock,
// which its owner holds.
type checked struct {
	Request
	config state.Config
	tree   versions.Tree // of the version to switch to
}

// check repeats, under the lock, the decisions from before the version was fetched. Without an
// error, ok is false if the transaction is not wanted any more; the log says why.
func (m *Machine) check(c state.Config, r Request) (req checked, ok bool, err error) {
	to, active := r.To.Release, c.Active()
	switch {
	case active == to && r.Spec == nil:
		m.Host.Log.Info("another run has switched already", "version", to.Short())
		return checked{}, false, nil
	case active != r.From:
		return checked{}, false, m.overtaken(failure.Unchanged("%s became active while %s was being fetched", OrNone(active.Version), r.To).
			To("run the command again"))
	case r.Kind.Automatic() && !r.Now && c.Status.FailureOf(to).BackingOff(to, m.Now()) && !c.Status.FailureOf(to).ReplacedBy(r.To.SHA256):
		m.Host.Log.Info("the version failed in another run meanwhile; nothing was changed", "version", to.Short())
		return checked{}, false, nil
	case r.Kind.Automatic() && (!c.Spec.Enabled || c.Spec.Pinned):
		m.Host.Log.Info("updates were disabled or pinned meanwhile; nothing was changed")
		return checked{}, false, nil
	}
	tree, found, err := m.Host.Store.Lookup(to)
	if err != nil {
		return checked{}, false, err
	}
	if !found || tree.SHA256 != r.To.SHA256 {
		return checked{}, false, m.overtaken(failure.Unchanged("version %s is no longer on disk as it was fetched", r.To).
			To("run the command again"))
	}
	return checked{r, c, tree}, true, nil
}

// overtaken returns the error that another run was faster. A person has to know that; the timer's
// next run looks again by itself.
func (m *Machine) overtaken(err error) error {
	if !m.Scheduled {
		return err
	}
	m.Host.Log.Info("another run changed the host first; the next run looks again", "error", err)
	return nil
}

// spec returns the configuration that holds once the version is committed.
func (r checked) spec() state.Spec {
	return *cmp.Or(r.Spec, &r.config.Spec)
}

// insisting returns the command by which a person makes the change although something is wrong with the database.
func (r Request) insisting() string {
	switch r.Kind {
	case Rollback:
		return "rollback " + r.To.Version + " --force"
	case Pin:
		return "pin " + r.To.Version + " --allow-downgrade"
	case Enable:
		return "enable --allow-downgrade"
	}
	return "update --now --skip-backup"
}
