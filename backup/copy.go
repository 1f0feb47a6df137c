package backup

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

const (
	// copyChunk is how much is copied between two looks at the context, bytes.
	copyChunk = 8 << 20

	// settleChunk is how much of a copy is on its way to the disk at once, bytes.
	settleChunk = 1 << 20

	// progressAbove is the size from which a copy takes long enough to be
	// watched, bytes.
	progressAbove = 100 << 20
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
		// What the agent commits meanwhile stays in its WAL until we are done,
		// and then one of its writes pays for syncing all of that. The disk may
		// begin earlier.
		writeBack(wal)
		total := int64(b.PageCount()) * pageSize
		tell(progress, total-int64(b.Remaining())*pageSize, total)
	}
}

// copyAtRest copies the database file, and what has to be recovered from beside
// it, to dst. The caller keeps everybody else out.
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

func copyOpened(ctx context.Context, src io.Reader, info fs.FileInfo, dst io.Writer, progress func(done, total int64)) error {
	for done := int64(0); ; {
		n, err := io.CopyN(dst, src, copyChunk)
		done += n
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		tell(progress, done, info.Size())
	}
}

// tell says how far a copy is that takes long enough to be watched.
func tell(progress func(done, total int64), done, total int64) {
	if progress != nil && total > progressAbove {
		progress(min(done, total), total)
	}
}

// settle brings a file to the disk a little at a time, so that the agent, which
// syncs meanwhile, waits behind little. For the same reason it is not begun
// while pages are copied: the agent's WAL grows until that is done, and so does
// the wait of the commit that has to checkpoint it. Errors are the following
// sync's to tell.
func settle(ctx context.Context, f *os.File) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	for at := int64(0); at < info.Size() && ctx.Err() == nil; at += settleChunk {
		unix.SyncFileRange(int(f.Fd()), at, settleChunk, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
}

// writeBack lets the disk begin to write what the file has in memory. It is only
// a hint: whoever syncs the file later has less to wait for.
func writeBack(f *os.File) {
	if f != nil {
		unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
}

// recoverCopy lets SQLite roll back or take over what a copied journal or WAL
// holds, and leaves the file alone and whole. The journal is somebody else's, so
// SQLite is kept to the folder: it removes the super-journal that a journal names.
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
	// To close it checkpoints, as the last one to leave.
	if err = cmp.Or(err, c.Close()); err != nil {
		return err
	}
	return dropFinished(path)
}

// dropFinished removes what a database that nobody has open may keep beside it
// without need: its WAL index, and a journal or WAL with nothing in it. It is
// an error when there is something in it.
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

// examine reads a copy twice, side by side: for what SQLite's quick_check finds
// wrong, and for its checksum.
func examine(ctx context.Context, f *os.File) (problems, crc string, err error) {
	var wait sync.WaitGroup
	var sumErr error
	wait.Go(func() { crc, sumErr = sum(ctx, f) })
	problems, err = settled(ctx, f.Name(), quickCheckOn)
	wait.Wait()
	return problems, crc, errors.Join(err, sumErr)
}

// castagnoli is the polynomial that processors compute themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the file's CRC-32C in hexadecimal. It is there to notice a disk
// that lost or changed something, not an enemy, who could as well write a new
// sum beside it: a cryptographic digest would only take longer, on processors
// without instructions for it longer than all the rest.
func sum(ctx context.Context, f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	hash := crc32.New(castagnoli)
	err = copyOpened(ctx, io.NewSectionReader(f, 0, info.Size()), info, hash, nil)
	return hex.EncodeToString(hash.Sum(nil)), err
}

func queryInt(c *sqlite3.Conn, query string) (int64, error) {
	stmt, _, err := c.Prepare(query)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	var n int64
	if stmt.Step() {
		n = stmt.ColumnInt64(0)
	}
	return n, stmt.Err()
}
