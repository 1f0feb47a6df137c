package walks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Other is what somebody else does to a host while a command runs. It is undone
// after that.
type Other string

// Others are all that a walk knows.
var Others = []Other{configWritable, configBroken, databaseRead, folderInTheWay, linkInTheWay}

const (
	configWritable Other = "updates.yaml may be written by everybody"
	configBroken   Other = "updates.yaml is broken"
	databaseRead   Other = "the database is open for reading"
	folderInTheWay Other = "a folder takes the place of the link tsh"
	linkInTheWay   Other = "a foreign link takes the place of the link tsh"
)

// act does it, and returns what undoes it; nil where there is nothing to do it to.
func (h *machine) act(o Other) (undo func() error, err error) {
	switch o {
	case configWritable, configBroken:
		return h.spoilConfig(o)
	case databaseRead:
		if _, err := os.Stat(h.database()); err != nil {
			return nil, nil
		}
		f, err := os.Open(h.database())
		if err != nil {
			return nil, err
		}
		reader := exec.Command("sleep", "infinity")
		reader.Stdin = f
		err = reader.Start()
		f.Close()
		if err != nil {
			return nil, err
		}
		return func() error {
			err := reader.Process.Kill()
			_ = reader.Wait()
			return err
		}, nil
	}
	link := filepath.Join(h.links(), "tsh")
	if _, err := os.Readlink(link); err != nil {
		return nil, nil
	}
	if err := os.Remove(link); err != nil {
		return nil, err
	}
	if o == folderInTheWay {
		return func() error { return os.Remove(link) }, os.Mkdir(link, 0o755)
	}
	const elsewhere = "/elsewhere/tsh"
	return func() error {
		if now, err := os.Readlink(link); err != nil || now != elsewhere {
			return nil // the updater put its own there
		}
		return os.Remove(link)
	}, os.Symlink(elsewhere, link)
}

// spoilConfig makes updates.yaml one that no command can read. It must still be what
// it was made when it is undone.
func (h *machine) spoilConfig(o Other) (undo func() error, err error) {
	text, err := os.ReadFile(h.config())
	if err != nil {
		return nil, nil
	}
	phase, err := h.phase()
	if err != nil {
		return nil, err
	}
	spoilt, mode := text, os.FileMode(0o600)
	if o == configWritable {
		mode = 0o666
	} else {
		spoilt = []byte("{[ broken\n")
	}
	if err := os.WriteFile(h.config(), spoilt, 0o600); err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.ReadFile(h.config())
		if phase == "uninstalling" && (errors.Is(err, fs.ErrNotExist) || err == nil && string(now) != string(spoilt)) {
			return nil // it went with the rest: ending that takes no more than the journal
		}
		if err == nil && string(now) != string(spoilt) {
			err = fmt.Errorf("updates.yaml, which nobody can read, was written: it holds %q", now)
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(h.config(), text, 0o600); err != nil {
			return err
		}
		return os.Chmod(h.config(), 0o600)
	}, os.Chmod(h.config(), mode)
}

// meanwhile runs a command while somebody else acts, and undoes that. What the command
// makes of it is its own affair, but it ends as a command that was cut off may end, or
// as one that failed: in no third state.
func (w *walk) meanwhile(ctx context.Context, c Command, o Other) (string, error) {
	undo, err := w.act(o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o, err)
	}
	if undo == nil {
		return w.command(ctx, c, 0)
	}
	r, err := w.run(ctx, c.Scheduled, 0, c.args()...)
	if err != nil {
		return "", err
	}
	w.tally.Commands++
	w.tally.Others++
	w.note += fmt.Sprintf(" (exit code %d)", r.code)
	if !slices.Contains([]int{0, 1, 4}, r.code) {
		return fmt.Sprintf("exit code %d\n%s%s", r.code, r.stdout, r.stderr), nil
	}
	if err := undo(); err != nil {
		return fmt.Sprintf("%v\n%s", err, r.stderr), nil
	}
	if o == folderInTheWay || o == linkInTheWay {
		if _, err := os.Lstat(filepath.Join(w.links(), "tsh")); err != nil {
			w.each(func(m *Model) { m.Missing = append(slices.Clone(m.Missing), "tsh") })
		}
	}
	phase, err := w.phase()
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	if phase != "" {
		return w.cut(ctx, c, r)
	}
	var next []*Model
	for _, m := range w.may {
		_, _, a := m.Run(c, &w.out)
		next = append(next, a.failures(c)...)
		next = append(next, a.undone...)
		next = append(next, a.done...)
	}
	for _, m := range next {
		m.Touched, m.Removing = true, true
	}
	w.open = false
	what, err := w.narrow(ctx, next)
	if what != "" {
		what += "\n" + r.stderr
	}
	return what, err
}

// failures are the states that a command may leave which failed on the way, with and
// without a note of that.
func (a *attempt) failures(c Command) (all []*Model) {
	targets := []Release{a.out.Target, a.Active, a.Previous, {Version: c.Version, Edition: a.Active.Edition}}
	for _, m := range a.trail {
		all = append(all, m)
		for _, to := range targets {
			if to.Version == "" {
				continue
			}
			noted := m.clone()
			noted.Last = &Last{to, "failed"}
			refused := noted.clone()
			refused.Refused = &to
			all = append(all, noted, refused)
		}
	}
	return all
}
