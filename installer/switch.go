package installer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"teleport-update/systemd"
)

// switchKind says what a switch is for; it decides which changes of the
// configuration, made while the version was being fetched, call it off.
type switchKind string

const (
	switchUpdate    switchKind = "update"
	switchDowngrade switchKind = "downgrade"
	switchEnable    switchKind = "enable"
	switchPin       switchKind = "pin"
	switchRollback  switchKind = "rollback"
	switchUninstall switchKind = "uninstall"
	// switchRepair fetches the active version again; nothing is switched.
	switchRepair switchKind = "repair"
)

// A switch takes minutes: a stop of the agent, a database, two health windows.
// What takes longer than this is stuck, and stopping it lets the next run
// recover.
const switchLimit = 2 * time.Hour

// SwitchRequest is the second half of a command: the version is on disk, what
// is left is the transaction. It crosses a process boundary as JSON on standard
// input, because templates may carry credentials and arguments can be read by
// anybody.
type SwitchRequest struct {
	Kind       switchKind `json:"kind"`
	From       target     `json:"from"` // the zero target before the first enable
	To         release    `json:"to"`
	Spec       *Spec      `json:"spec,omitempty"` // configuration to commit with the version; nil keeps what is there
	Held       *Held      `json:"held,omitempty"`
	Now        bool       `json:"now,omitempty"` // in spite of a failure of this version
	SkipBackup bool       `json:"skip_backup,omitempty"`
	Force      bool       `json:"force,omitempty"` // a downgrade without a valid backup of the target
	KeepAgent  bool       `json:"keep_agent,omitempty"`
}

// ExitError is the exit code of a switch, or of its recovery, that ran, and
// explained itself, in a unit of its own.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("the switch ended with exit code %d", e.Code) }

// switchOver runs the transaction: in a transient unit of its own where systemd
// runs, since the operator's shell may be a child of the very agent that is
// about to be stopped; in this process elsewhere.
func (i *Installer) switchOver(ctx context.Context, req SwitchRequest) error {
	return i.inOwnUnit(ctx, req, "Switch the Teleport agent to "+req.To.String())
}

func (i *Installer) inOwnUnit(ctx context.Context, req SwitchRequest, description string) error {
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn == nil {
		return i.Switch(ctx, req)
	}
	defer conn.Close()
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	stdin, err := pipeOf(data)
	if err != nil {
		return err
	}
	defer stdin.Close()
	return i.runApart(ctx, conn, description, stdin, "switch")
}

// runApart runs a command of this program in a transient unit and follows it.
func (i *Installer) runApart(ctx context.Context, conn *systemd.Conn, description string, stdin *os.File, command string) error {
	code, err := conn.RunTransient(ctx, systemd.Transient{
		Description: description,
		Argv:        append(append([]string{}, i.Command...), command),
		RuntimeMax:  switchLimit,
		Env:         i.handedOn(),
		Stdin:       stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
	})
	var goesOn *systemd.GoesOnError
	switch {
	case errors.As(err, &goesOn):
		return fmt.Errorf("%s: this goes on in %s, without the command that began it (%w): see `teleport-update status` and `journalctl -t teleport-update`",
			description, goesOn.Unit, goesOn.Err)
	case err != nil && code > 128:
		return fmt.Errorf("%s: this was cut off: %w; the timer's next run closes it, and so does `teleport-update update`", description, err)
	case err != nil:
		return fmt.Errorf("%s, in a unit of its own: %w; see `teleport-update status` and `journalctl -t teleport-update`", description, err)
	}
	if code != 0 {
		return &ExitError{Code: code}
	}
	return nil
}

// handedOn is the environment of the unit of its own: whether the timer started
// all this, and whether its stderr, which is ours, is read by the journal
// already.
func (i *Installer) handedOn() []string {
	var env []string
	if i.Scheduled {
		env = append(env, ScheduledVariable+"=1")
	}
	if v, ok := os.LookupEnv("JOURNAL_STREAM"); ok {
		env = append(env, "JOURNAL_STREAM="+v)
	}
	return env
}

// pipeOf returns the reading end of a pipe that holds data. A request fits into
// the pipe's buffer by far.
func pipeOf(data []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if len(data) > 32<<10 {
		return nil, fmt.Errorf("the request is %d bytes long", len(data))
	}
	if _, err := w.Write(data); err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	return r, w.Close()
}

// ReadSwitchRequest reads what another process of this program asks for.
func ReadSwitchRequest(r io.Reader) (SwitchRequest, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return SwitchRequest{}, err
	}
	var req SwitchRequest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return SwitchRequest{}, fmt.Errorf("read the request: %w; this command is for teleport-update itself", err)
	}
	return req, nil
}

// Switch is the transaction from lock to unlock. What was decided before the
// version was fetched is checked again under the lock.
func (i *Installer) Switch(ctx context.Context, req SwitchRequest) error {
	c, unlock, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	} else {
		i.Log.Warn("systemd is not running here: links, unit and configuration are changed, the agent is not restarted")
	}
	if req.Kind == switchUninstall {
		return i.uninstallLocked(ctx, c, conn, req.KeepAgent)
	}
	to := target{Version: req.To.Version, Edition: req.To.Edition}
	switch active := c.activeTarget(); {
	case active == to && req.Spec == nil:
		i.Log.Info("another run has switched already", "version", req.To.String())
		return nil
	case active != req.From:
		return i.overtaken(fmt.Errorf("%s became active while %s was being fetched; nothing was changed: run the command again",
			orNone(active.Version), req.To))
	case req.Kind.automatic() && !req.Now && backingOff(c.Status.Failed, to.Version, to.Edition, i.Now()) &&
		!c.Status.Failed.replacedBy(req.To.SHA256):
		i.Log.Info("the version failed in another run meanwhile; nothing was changed", "version", req.To.String())
		return nil
	case req.Kind.automatic() && (!c.Spec.Enabled || c.Spec.Pinned):
		i.Log.Info("updates were disabled or pinned meanwhile; nothing was changed")
		return nil
	}
	tree, ok, err := i.store().Lookup(to)
	if err != nil {
		return err
	}
	if !ok || tree.SHA256 != req.To.SHA256 {
		return i.overtaken(fmt.Errorf("version %s is no longer on disk as it was fetched; nothing was changed: run the command again", req.To))
	}
	t := transaction{Installer: i, conn: conn, config: c, request: req, tree: tree}
	return t.run(ctx)
}

// overtaken says that another run was faster. A person has to know that; the
// timer's next run looks again by itself.
func (i *Installer) overtaken(err error) error {
	if !i.Scheduled {
		return err
	}
	i.Log.Info("another run was faster; the next one looks again", "reason", err)
	return nil
}

// automatic kinds stop being wanted when a person disables or pins.
func (k switchKind) automatic() bool { return k == switchUpdate || k == switchDowngrade }
