package versions

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// stream receives a download into the staging folder and completes the tree
// there. Three stages run at once: receive and hash, decompress, unpack and
// hash; decompression takes the longest and hides the others.
func (f *Fetcher) stream(d *download, cancel context.CancelCauseFunc, staging string, r Release) error {
	w, err := newTreeWriter(staging)
	if err != nil {
		return err
	}
	in := &counted{r: d, hash: sha256.New()}
	// The second pipe is long enough to go on decompressing while the disk is
	// busy with something else for some milliseconds.
	compressed, plain := newPipe(4, 128<<10), newPipe(12, 256<<10)
	var stages sync.WaitGroup
	var received error
	stages.Go(func() { received = compressed.fill(in) })
	stages.Go(func() {
		plain.fill(&expander{r: compressed, limits: f.Limits, in: &in.bytes})
		compressed.stop()
	})
	err = unarchive(plain, f.Limits, w)
	plain.stop()
	if err != nil {
		cancel(errStopped) // the first stage may wait for the network
	}
	stages.Wait()
	err = errors.Join(err, w.finish())
	if _, local := errors.AsType[*localError](err); local {
		return err
	}
	if received != nil && !errors.Is(received, errStopped) {
		return received // what the later stages say follows from it
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(in.hash.Sum(nil)); got != d.digest {
		return &ChecksumError{URL: d.mirrors[0].name, Want: d.digest, Got: got}
	}
	return w.seal(r, d.digest)
}

// counted hashes and counts what goes by.
type counted struct {
	r     io.Reader
	hash  hash.Hash
	bytes atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	c.bytes.Add(int64(n))
	return n, err
}

// expander decompresses a tarball, gzip or zstd by its first bytes, within the
// limits. It ends with an error if anything follows.
type expander struct {
	r      io.Reader
	limits Limits
	in     *atomic.Int64

	buf   *bufio.Reader
	plain io.Reader
	out   int64
}

func (e *expander) Read(p []byte) (int, error) {
	if e.plain == nil {
		if err := e.open(); err != nil {
			return 0, err
		}
	}
	n, err := e.plain.Read(p)
	e.out += int64(n)
	switch {
	case e.out > e.limits.Total:
		return 0, refuse("it holds more than %s", formatBytes(e.limits.Total))
	case e.out > e.limits.Slack+e.limits.Ratio*e.in.Load():
		return 0, refuse("it grows to more than %d times its size", e.limits.Ratio)
	case err == io.EOF:
		if _, err := e.buf.ReadByte(); err == nil {
			return 0, refuse("something follows the compressed data")
		} else if err != io.EOF {
			return 0, err
		}
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = refuse("its zstd window is larger than %s; compress it at level 19 or below, without --long", formatBytes(MaxZstdWindow))
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = refuse("it ends in the middle of the compressed data")
	case err != nil:
		err = refuse("it cannot be decompressed, it is damaged: %w", err)
	}
	return n, err
}

func (e *expander) open() error {
	// The decompressors are a sixth faster with a reader they know; the pipe
	// would be one they do not.
	e.buf = bufio.NewReaderSize(struct{ io.Reader }{e.r}, 64<<10)
	magic, err := e.buf.Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(e.buf)
		if err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		z.Multistream(false)
		e.plain = z
	case string(magic) == "\x28\xb5\x2f\xfd":
		// One goroutine and one window: the stages around it fill the cores.
		z, err := zstd.NewReader(e.buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(MaxZstdWindow))
		if err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		e.plain = z
	case len(magic) == 0:
		return refuse("it is empty")
	default:
		return refuse("it begins with %q and is neither gzip nor zstd (did something other than the server answer?)", magic)
	}
	return nil
}
