package backup

import (
	"context"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
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
		reportProgress(progress, done, info.Size())
	}
}

// reportProgress reports the progress of a copy that takes long enough to be watched.
func reportProgress(progress func(done, total int64), done, total int64) {
	if progress != nil && total > progressAbove {
		progress(min(done, total), total)
	}
}

// settle writes a file to the disk in small parts, so that a sync of the agent waits for
// one part only. It runs after the pages are copied: until the copy ends, the agent's WAL
// grows, and so does the wait of the commit that checkpoints the WAL. The sync that
// follows returns the errors.
func settle(ctx context.Context, f *os.File) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	for at := int64(0); at < info.Size() && ctx.Err() == nil; at += settleChunk {
		unix.SyncFileRange(int(f.Fd()), at, settleChunk, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
}

// writeBack lets the disk begin to write the file's pages in memory. It is only a hint: a later sync has less to wait for.
func writeBack(f *os.File) {
	if f != nil {
		unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
}
