package backup

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// copyOnline copies the pages of the database into the empty file dst through
// SQLite's backup API, while others may write.
//
// The copy is made in several steps, but inside one read transaction: without
// it each step would see a new state, and a write by another process would make
// the copy start again, for ever under a busy agent. In rollback-journal mode
// the transaction keeps writers waiting, as a single step would.
func copyOnline(ctx context.Context, path string, dst *os.File, progress func(done, total int64)) (err error) {
	c, err := connectLive(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Exec("BEGIN; SELECT count(*) FROM sqlite_schema"); err != nil {
		return err
	}
	pageSize, err := queryInt(c, "PRAGMA page_size")
	if err != nil {
		return err
	}

	wal, _, err := openOwn(path + "-wal")
	if err != nil && !isNotExist(err) {
		return err
	}
	defer wal.Close() // nil in rollback mode, which Close takes

	// The copy has a temporary name until it is whole, so it needs no journal
	// of its own, and it is synced by the caller.
	b, err := c.BackupInit("main", fileURI(dst.Name(),
		"_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)"))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, b.Close()) }()
	for {
		done, err := b.Step(int(copyChunk / pageSize))
		if err != nil || done {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The agent's commits meanwhile stay in its WAL until we are done, and then one of its writes pays for syncing all of that. The disk may
		// begin earlier.
		writeBack(wal)
		total := int64(b.PageCount()) * pageSize
		reportProgress(progress, total-int64(b.Remaining())*pageSize, total)
	}
}

// copyAtRest copies the database file to dst, with the WAL or journal that it has to be
// recovered from. The caller must keep every other process out.
func copyAtRest(ctx context.Context, path string, c condition, dst *os.File, progress func(done, total int64)) error {
	if err := copyFile(ctx, path, dst, progress); err != nil {
		return err
	}
	if !c.unsettled() {
		return nil
	}
	for _, suffix := range []string{"-journal", "-wal"} {
		if err := copySidecar(ctx, path+suffix, dst.Name()+suffix); err != nil {
			return err
		}
	}
	return nil
}

func copySidecar(ctx context.Context, from, to string) error {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err = copyFile(ctx, from, dst, nil); isNotExist(err) {
		err = os.Remove(to)
	}
	return cmp.Or(err, dst.Close())
}

func copyFile(ctx context.Context, from string, dst *os.File, progress func(done, total int64)) error {
	src, info, err := openOwn(from)
	if err != nil {
		return err
	}
	defer src.Close()
	return copyOpened(ctx, src, info, dst, progress)
}

// recoverCopy lets SQLite roll back a copied journal or take over a copied WAL, and leaves the file alone and whole. The journal is
// somebody else's, so SQLite is kept to the folder: it removes the super-journal that a journal names.
func recoverCopy(ctx context.Context, path string) (err error) {
	d, err := Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	defer d.explained(&err)
	path = d.at()
	c, err := connect(ctx, path, sqlite3.OPEN_READWRITE,
		"_pragma=locking_mode(exclusive)&_pragma=synchronous(off)")
	if err != nil {
		return err
	}
	err = c.Exec("SELECT count(*) FROM sqlite_schema")
	// Closing checkpoints, because this is the last connection.
	if err = cmp.Or(err, c.Close()); err != nil {
		return err
	}
	return dropFinished(path)
}

// dropFinished removes the files that a closed database does not need: its WAL index, and
// an empty journal or WAL. A journal or WAL with content is an error.
func dropFinished(path string) error {
	for _, suffix := range sidecars {
		name := path + suffix
		info, err := lstatOwn(name)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		needed := suffix == "-wal" && info.Size() > 0
		if suffix == "-journal" {
			if needed, err = unfinished(name); err != nil {
				return err
			}
		}
		if needed {
			return fmt.Errorf("SQLite left %s behind: not recovered", name)
		}
		if err := durable.UnlinkNoSync(name); err != nil {
			return err
		}
	}
	return nil
}
