package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/internal/durable"
)

// Restoration is the result of Restore.
type Restoration struct {
	From Facts // what the backup holds
	// Was is the content of the earlier store; the zero value if there was none, or it could not be
	// read.
	Was Facts
	// Kept is the new path of the earlier store; empty if there was none.
	Kept string
}

// RestoreOptions say what to restore.
type RestoreOptions struct {
	Path string // of the store; not used by RestoreInto
	File string // with a backup
	// Prepare may change the restored store before any process opens it; may be nil.
	Prepare func(ctx context.Context, s Store, from Facts) error
	// Damaged reports that the store may be gone or broken. Then it is not known whether a server has
	// it open.
	Damaged bool
	Now     time.Time
	// Keep selects the items among the facts; none if it is nil.
	Keep func(key string) bool
}

// Restore replaces the store by a backup, in one step, and keeps the earlier store
// under another name. After an error, the store is as it was.
//
// No process may have the store open: servers hold the earlier store's data in memory.
// The restored one begins a new epoch: its revisions are larger than all earlier ones.
func Restore(ctx context.Context, o RestoreOptions) (Restoration, error) {
	r, err := restore(ctx, o)
	if err != nil {
		return Restoration{}, fmt.Errorf("restore the store %s: %w", o.Path, err)
	}
	return r, nil
}

// RestoreInto puts a backup into an empty store of another kind, as one change. For another store, the error is
// ErrNotEmpty.
func RestoreInto(ctx context.Context, to Movable, o RestoreOptions) (Restoration, error) {
	r, err := restoreInto(ctx, to, o)
	if err != nil {
		return Restoration{}, fmt.Errorf("restore the store: %w", err)
	}
	return r, nil
}

func restoreInto(ctx context.Context, to Movable, o RestoreOptions) (r Restoration, err error) {
	if r.From, err = Inspect(ctx, o.File, o.Keep); err != nil {
		return r, err
	}
	folder, err := os.MkdirTemp("", "teleport-find-restore-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	next := filepath.Join(folder, "store.db")
	if err := copyBackup(o.File, next); err != nil {
		return r, err
	}
	if err := o.prepare(ctx, next, r); err != nil {
		return r, err
	}
	s, err := OpenSQLite(ctx, next)
	if err != nil {
		return r, err
	}
	defer s.Close()
	return r, Copy(ctx, s, to)
}

func restore(ctx context.Context, o RestoreOptions) (r Restoration, err error) {
	if o.Path, err = filepath.Abs(o.Path); err != nil {
		return r, err
	}
	if r.From, err = Inspect(ctx, o.File, o.Keep); err != nil {
		return r, err
	}
	dir := filepath.Dir(o.Path)
	if err := checkOwner(dir); err != nil {
		return r, err
	}
	old, err := claim(o)
	if err != nil {
		return r, err
	}
	defer old.release()
	r.Was = old.facts
	folder := filepath.Join(dir, ".restore")
	if err := os.RemoveAll(folder); err != nil { // leftovers of a run that was cut off
		return r, err
	}
	defer os.RemoveAll(folder)
	next := filepath.Join(folder, "store.db")
	if err := makeFolder(folder); err != nil {
		return r, err
	}
	if err := copyBackup(o.File, next); err != nil {
		return r, err
	}
	if err := o.prepare(ctx, next, r); err != nil {
		return r, err
	}
	if err := giveTo(dir, next); err != nil {
		return r, err
	}
	if err := durable.SyncFile(next); err != nil {
		return r, err
	}
	if r.Kept, err = old.keep(o.Now); err != nil {
		return r, err
	}
	return r, replace(next, o.Path)
}

// prepare begins the new epoch.
func (o RestoreOptions) prepare(ctx context.Context, next string, r Restoration) error {
	s, err := OpenSQLite(ctx, next)
	if err != nil {
		return err
	}
	newest := max(r.From.Revision, r.Was.Revision)
	err = s.change(ctx, func(*sqlite3.Conn, Revision) (Revision, error) { return newest + EpochStep, nil })
	if err == nil && o.Prepare != nil {
		err = o.Prepare(ctx, s, r.From)
	}
	if err = cmp.Or(err, s.Close()); err != nil {
		return err
	}
	return withoutLog(next)
}

// claimed is the earlier store, which no other process can open until it is released.
type claimed struct {
	path  string
	there bool
	conn  *sqlite3.Conn // nil for a store that is gone or damaged
	facts Facts
}

func claim(o RestoreOptions) (*claimed, error) {
	c := &claimed{path: o.Path}
	_, err := os.Lstat(o.Path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c.there = true
	err = c.lock(o.Keep)
	if err == nil {
		return c, nil
	}
	c.release()
	if isBusy(err) {
		return c, errors.New("somebody has it open: stop the servers that use it (systemctl stop teleport-find), and start them again afterwards")
	}
	if o.Damaged {
		return c, nil
	}
	return c, fmt.Errorf("the one that is there cannot be read (%w): stop the servers that use it, and say --damaged", explain(err))
}

// lock makes the store one file, which works only while no other process has it open.
func (c *claimed) lock(keep func(key string) bool) (err error) {
	if c.conn, err = sqlite3.OpenFlags(c.path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_NOFOLLOW); err != nil {
		return err
	}
	if _, _, err := recognise(c.conn); err != nil {
		return err
	}
	if err := c.conn.Exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; COMMIT"); err != nil {
		return err
	}
	return c.facts.read(c.conn, keep)
}

func (c *claimed) release() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// keep gives the earlier store a second name; it has both until the backup takes the first one.
func (c *claimed) keep(now time.Time) (kept string, err error) {
	if !c.there {
		return "", nil
	}
	kept = c.path + ".before-" + now.UTC().Format("20060102T150405Z")
	if err := os.Link(c.path, kept); err != nil {
		return "", err
	}
	for _, s := range sidecars { // only a damaged store has them
		if err := os.Rename(c.path+s, kept+s); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return kept, durable.SyncDir(filepath.Dir(c.path))
}

func copyBackup(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return cmp.Or(err, out.Close())
}

// giveTo gives a file that root has made to the owner of a folder.
func giveTo(dir, file string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(file, int(owner.Uid), int(owner.Gid))
}
