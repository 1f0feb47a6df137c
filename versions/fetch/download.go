package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"teleport-update/internal/space"
	"teleport-update/internal/webclient"
)

// progressMade is how many new bytes count as progress of an attempt, so that a server cannot keep
// us for ever with a byte at a time.
const progressMade = 64 << 10

// download is the tarball as one stream that hides lost connections. A connection that breaks or
// stalls is opened again where it ended; a server that cannot do that sends the whole tarball
// again, and the bytes received before are skipped; a mirror that failed for good is replaced by
// the next one with the same checksum. In the end the checksum proves that the pieces fit.
type download struct {
	f       *Fetcher
	ctx     context.Context
	tarball Tarball
	proof   Proof
	digest  string
	expect  string   // the checksum that the caller insists on; may be empty
	mirrors []mirror // the current one first, then the untried ones
	failed  *failures
	keep    *keeper

	part     *part
	pace     pace  // of the part
	pending  error // the error that ended the part, returned after its last bytes
	valid    validator
	offset   int64 // bytes handed out
	total    int64 // -1: not known
	furthest int64 // the highest offset that counts as progress
	tries    int   // attempts in a row without progress
	stitched bool  // the stream is of more than one piece
}

// begin finds the first mirror that announces a checksum.
func (f *Fetcher) begin(ctx context.Context, mirrors []mirror, expect string, failed *failures) (*download, error) {
	for len(mirrors) > 0 {
		d := &download{f: f, ctx: ctx, expect: expect, mirrors: mirrors, failed: failed, total: -1}
		err := d.announce(ctx)
		if err == nil {
			return d, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed.add(mirrors[0].name, err)
		mirrors = mirrors[1:]
	}
	return nil, failed
}

// announce asks the current mirror which tarball it has, and the verifier whether that is allowed.
func (d *download) announce(ctx context.Context) (err error) {
	m := d.mirrors[0]
	if d.digest, err = d.f.announced(ctx, m, d.expect); err != nil {
		return err
	}
	d.tarball = Tarball{Release: d.failed.release, OS: m.os, Arch: m.arch, Name: path.Base(m.url.Path), SHA256: d.digest, Size: -1}
	d.proof, err = d.f.admit(ctx, m, d.tarball)
	return err
}

func (d *download) Read(p []byte) (int, error) {
	if n, err := d.keep.replay(p); n > 0 || err != nil {
		d.stitched = true
		return n, d.advance(n, err) // Progress is not called: rate and time left are about new bytes
	}
	for {
		if err := d.ctx.Err(); err != nil {
			return 0, context.Cause(d.ctx)
		}
		if d.part == nil {
			if d.total >= 0 && d.offset == d.total {
				return 0, io.EOF // all of it was kept
			}
			if err := d.connect(); err != nil {
				return 0, err
			}
		}
		n, err := 0, d.pending
		if err == nil {
			n, err = d.pace.read(d.part.body, p)
			d.pending = err
		}
		if n > 0 {
			return n, d.received(p[:n])
		}
		if err == nil {
			continue
		}
		if err := d.ended(err); err != nil {
			return 0, err
		}
	}
}

// received keeps bytes from the network, counts them and reports progress. A mirror that is too
// slow goes to the end of the list.
func (d *download) received(p []byte) error {
	d.keep.write(p)
	err := d.advance(len(p), nil)
	d.f.Progress.Update(d.offset, d.total)
	if err != nil {
		return err
	}
	if err := d.tooSlow(); err != nil {
		return d.putLast(err)
	}
	return nil
}

// ended decides what the end of a part means: io.EOF if it was the last part, nil if the download
// continues with another one, or the error that prevents that.
func (d *download) ended(err error) error {
	d.close()
	if err == io.EOF && (d.total < 0 || d.offset == d.total) {
		return io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return d.retry(d.lost(err))
}

func (d *download) lost(err error) error {
	if err == io.ErrUnexpectedEOF {
		return fmt.Errorf("connection lost after %d bytes", d.offset)
	}
	return fmt.Errorf("connection lost after %d bytes: %w", d.offset, webclient.RedactError(webclient.PlainError(err)))
}

func (d *download) advance(n int, err error) error {
	d.offset += int64(n)
	if err == nil && d.offset > d.f.Limits.Download {
		err = unusable("the tarball is larger than %s", space.Format(d.f.Limits.Download))
	}
	return err
}

func (d *download) close() {
	if d.part != nil {
		d.part.body.Close()
		d.part, d.pending = nil, nil
	}
}

// connect opens the tarball at the current offset, on the current mirror or a later one.
func (d *download) connect() error {
	for {
		m := d.mirrors[0]
		p, err := m.source.open(d.ctx, m.place, d.offset, d.valid)
		if err == nil {
			err = d.take(p)
		}
		if err == nil {
			return nil
		}
		if err := d.retry(err); err != nil {
			return err
		}
	}
}

// take checks that a part continues the stream, and skips the bytes that were received before.
func (d *download) take(p *part) (err error) {
	defer func() {
		if err != nil {
			p.body.Close()
		}
	}()
	if d.total >= 0 && p.total >= 0 && d.total != p.total {
		return errChanged
	}
	if p.total > d.f.Limits.Download {
		return unusable("the tarball is of %s, more than the limit of %s", space.Format(p.total), space.Format(d.f.Limits.Download))
	}
	if p.offset < d.offset {
		d.f.Log.Info("the server cannot continue a download; receiving it again from its first byte", "url", d.mirrors[0].name)
		if _, err := io.CopyN(io.Discard, p.body, d.offset-p.offset); err == io.EOF {
			return errChanged
		} else if err != nil {
			return webclient.RedactError(err)
		}
	}
	if d.total < 0 {
		d.total = p.total
	}
	d.stitched = d.stitched || d.offset > 0
	d.part, d.pace, d.valid = p, pace{}, p.valid
	if p.local && d.keep != nil {
		d.keep.drop()
	} else {
		d.keep.describe(d.mirrors[0].place, p.valid, d.total)
	}
	return nil
}

// retry decides what follows a failed attempt. It returns nil if the stream can be continued,
// after a pause or with another mirror.
func (d *download) retry(err error) error {
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	if errors.Is(err, errChanged) {
		return &restartError{err}
	}
	if d.offset >= d.furthest+progressMade {
		d.furthest, d.tries = d.offset, 0
	}
	d.tries++
	if !d.f.givesUp(err, d.tries) {
		d.f.Log.Warn("the download was interrupted; continuing", "url", d.mirrors[0].name, "received", d.offset, "attempt", d.tries, "error", err)
		return d.f.pause(d.ctx, d.tries, err)
	}
	// The mirror is not tried again.
	d.failed.add(d.mirrors[0].name, err)
	d.mirrors = d.mirrors[1:]
	return d.turnTo(err)
}

// turnTo continues with the next mirror that announces a checksum; another checksum than before is
// a restartError. err is the reason why the previous mirror is left.
func (d *download) turnTo(err error) error {
	for ; ; d.mirrors = d.mirrors[1:] {
		if len(d.mirrors) == 0 {
			return d.failed
		}
		d.f.Log.Warn("trying the next mirror", "url", d.mirrors[0].name, "error", err)
		var digest string
		digest, err = d.f.announced(d.ctx, d.mirrors[0], d.expect)
		if d.ctx.Err() != nil {
			return context.Cause(d.ctx)
		}
		if err != nil {
			d.failed.add(d.mirrors[0].name, err)
			continue
		}
		if digest != d.digest {
			return &restartError{fmt.Errorf("%s announces another checksum", d.mirrors[0].name)}
		}
		d.tries, d.furthest, d.valid = 0, d.offset, validator{}
		return nil
	}
}
