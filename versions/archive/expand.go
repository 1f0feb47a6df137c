package archive

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"teleport-update/internal/space"
)

// expander decompresses a tarball within the limits. The first bytes say whether it is gzip or
// zstd. It ends with a violation if anything follows.
type expander struct {
	limits Limits
	in     source

	buf   *bufio.Reader
	plain io.Reader
	out   int64
}

// readError is an error of the compressed stream, not of a decompressor.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *expander) Read(p []byte) (int, error) {
	n, err := e.read(p)
	if err != nil && e.in.err != nil {
		err = &readError{e.in.err}
	}
	return n, err
}

func (e *expander) read(p []byte) (int, error) {
	if e.plain == nil {
		if err := e.open(); err != nil {
			return 0, err
		}
	}
	n, err := e.plain.Read(p)
	e.out += int64(n)
	switch {
	case e.in.bytes > e.limits.Download:
		return 0, tooLong(e.limits)
	case e.out > e.limits.Total:
		return 0, violation("total", "it holds more than %s", space.Format(e.limits.Total))
	case e.out > e.limits.Slack+e.limits.Ratio*e.in.bytes:
		return 0, violation("ratio", "it grows to more than %d times its size", e.limits.Ratio)
	case err == io.EOF:
		if _, err := e.buf.ReadByte(); err == nil {
			return 0, violation("trailing", "something follows the compressed data")
		}
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = violation("window", "its zstd window is larger than %s; compress it at level 19 or below, without --long",
			space.Format(MaxZstdWindow))
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = violation("cut", "it ends in the middle of the compressed data")
	case err != nil:
		err = violation("damage", "it cannot be decompressed, it is damaged: %v", err)
	}
	return n, err
}

func (e *expander) open() error {
	// The decompressors are a sixth faster with a reader they know.
	e.buf = bufio.NewReaderSize(&e.in, 64<<10)
	magic, _ := e.buf.Peek(4) // the error of a short stream is in e.in.err
	var err error
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		var z *gzip.Reader
		if z, err = gzip.NewReader(e.buf); err == nil {
			z.Multistream(false)
			e.plain = z
		}
	case string(magic) == "\x28\xb5\x2f\xfd":
		// One goroutine and one window: the stages around it fill the cores.
		e.plain, err = zstd.NewReader(e.buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(MaxZstdWindow))
	case len(magic) == 0:
		return violation("format", "it is empty")
	default:
		return violation("format", "it begins with %q and is neither gzip nor zstd (did something other than the server answer?)", magic)
	}
	if err != nil {
		return violation("damage", "decompress: %v", err)
	}
	return nil
}

func tooLong(limits Limits) *Violation {
	return violation("tarball", "the tarball is larger than %s", space.Format(limits.Download))
}

// source is the compressed stream. It counts the bytes read from it, and fills whole buffers, so
// that the count does not depend on the pieces in which the bytes come.
type source struct {
	r     io.Reader
	bytes int64
	err   error // what r returned instead of its end
}

func (s *source) Read(p []byte) (int, error) {
	n, err := readFull(s.r, p)
	s.bytes += int64(n)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}
