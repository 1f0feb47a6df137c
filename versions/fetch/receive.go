package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// receive runs one download to the published tree.
func (f *Fetcher) receive(ctx context.Context, d *download, req Request) (_ versions.Tree, err error) {
	var cancel context.CancelCauseFunc
	d.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := f.openKept(d); err != nil {
		return versions.Tree{}, err
	}
	defer func() {
		d.close()
		if err != nil && (ctx.Err() != nil || errors.Is(err, error(d.failed))) {
			d.keep.end() // the network's fault, or somebody was in a hurry
		} else {
			d.keep.drop()
		}
	}()
	if d.keep.have == 0 {
		// Before anything is written: the length says how much space is needed.
		if err := d.connect(); err != nil {
			return versions.Tree{}, err
		}
	}
	need, err := req.need(d.total)
	if err != nil {
		return versions.Tree{}, local(err)
	}
	if d.keep.need, err = f.Store.CheckRoom(need, req.Extra); err != nil {
		return versions.Tree{}, local(err)
	}
	b, err := f.Store.Begin(req.Release)
	if err != nil {
		return versions.Tree{}, err
	}
	defer func() {
		if err != nil {
			b.Discard()
		}
	}()
	if err := req.Claim.Take(b.Dir()); err != nil {
		return versions.Tree{}, local(err)
	}
	f.Log.Info("downloading", "version", req.Release.Version, "edition", req.Release.Edition, "url", d.mirrors[0].name, "bytes", d.total)
	says, err := f.stream(d, cancel, b, need-req.Extra)
	if err != nil {
		return versions.Tree{}, err
	}
	if err := d.confirm(says); err != nil {
		return versions.Tree{}, err
	}
	b.Sign(d.proof.Signature)
	return b.Publish(req.Linked, d.digest)
}

// openKept prepares the folder of unfinished downloads, and opens the kept part of this one.
func (f *Fetcher) openKept(d *download) error {
	dir := f.Store.PartialDir()
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return local(space.Explain(err, filepath.Dir(dir)))
	}
	// Its content is about to be removed.
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return local(fmt.Errorf("%s is not a folder of ours but leads elsewhere: remove it", dir))
	}
	if err := f.Store.RemoveUnfinished(d.digest); err != nil {
		f.Log.Debug("cannot remove a leftover of a download", "error", err)
	}
	d.keep = openKeeper(dir, d.digest, f.Patience.KeepAfter, f.Log)
	d.valid, d.total = d.keep.known(d.mirrors[0].place)
	return nil
}

// stream receives a download into a release that is being built.
func (f *Fetcher) stream(d *download, cancel context.CancelCauseFunc, b *versions.Build, ahead int64) (says archive.Label, err error) {
	sum := sha256.New()
	err = b.Fill(ahead, func(to archive.Sink) (err error) {
		says, err = archive.Unpack(io.TeeReader(d, sum), f.Limits, to, func() { cancel(errStopped) })
		return err
	})
	if err != nil {
		return says, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.digest {
		return says, &ChecksumError{URL: d.mirrors[0].name, Want: d.digest, Got: got}
	}
	return says, nil
}

// confirm asks the verifier about a complete tarball.
func (d *download) confirm(says archive.Label) (err error) {
	if d.f.Verifier == nil {
		return nil
	}
	d.tarball.Size = d.offset
	d.stitched = false // its digest is right: another download of it would be the same
	d.proof, err = d.f.Verifier.Confirm(d.tarball, d.proof, says)
	return err
}
