package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// siblingPatience bounds the wait for a file beside a tarball: it has some hundred bytes.
const siblingPatience = 30 * time.Second

// Tarball is the tarball that a Verifier judges.
type Tarball struct {
	Release  versions.Release
	OS, Arch string // of the host that it is for, as Go names them
	Name     string // the last part of its URL
	SHA256   string // 64 hex digits in lower case
	Size     int64  // in bytes; -1 before the tarball was received
}

// Proof is the reason why a tarball may be used, as far as it is known before the download.
type Proof struct {
	// By names a key, or a rule of the host's policy, that allows it. Empty: nobody was asked.
	By string
	// Signature is the signature that was found good, byte for byte; otherwise nil.
	Signature []byte
}

// Sibling reads a file beside the tarball: its name is the tarball's plus a suffix. The error
// matches ErrNotFound if the mirror has no such file, and is an *OversizedError if the file has
// more than limit bytes.
type Sibling func(suffix string, limit int64) ([]byte, error)

// Verifier decides who allows a tarball. Mirrors announce checksums, but a mirror in foreign hands
// announces its own: a matching checksum proves only that nothing was damaged on the way.
type Verifier interface {
	// Admit is asked after a mirror has announced a tarball, and before it is received. After an
	// error the next mirror is tried.
	Admit(t Tarball, sibling Sibling) (Proof, error)
	// Confirm is asked when the whole tarball is here, with that digest, and before any file of it
	// has a name that somebody could execute. The tree keeps the Proof that it returns.
	Confirm(t Tarball, p Proof, says archive.Label) (Proof, error)
}

// OversizedError is a file that is longer than its kind may be.
type OversizedError struct {
	URL   string // as it may be logged
	Limit int64  // in bytes
}

func (e *OversizedError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes", e.URL, e.Limit)
}

// admit asks the verifier about a mirror's announced tarball.
func (f *Fetcher) admit(ctx context.Context, m mirror, t Tarball) (Proof, error) {
	if f.Verifier == nil {
		return Proof{}, nil
	}
	return f.Verifier.Admit(t, f.sibling(ctx, m))
}

// sibling reads files beside the tarball of a mirror, with as many attempts as Patience allows.
func (f *Fetcher) sibling(ctx context.Context, m mirror) Sibling {
	return func(suffix string, limit int64) ([]byte, error) {
		at := m.sibling(suffix)
		for try := 1; ; try++ {
			data, err := f.readSibling(ctx, at, limit)
			if err == nil || f.givesUp(err, try) {
				return data, err
			}
			f.Log.Warn("reading a file beside the tarball failed; trying again", "url", at.name, "attempt", try, "error", err)
			if err := f.pause(ctx, try, err); err != nil {
				return nil, err
			}
		}
	}
}

func (f *Fetcher) readSibling(ctx context.Context, at mirror, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, siblingPatience, errors.New("the server sends it too slowly"))
	defer cancel()
	data, more, err := at.read(ctx, limit)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case more:
		return nil, &OversizedError{URL: at.name, Limit: limit}
	}
	return data, nil
}
