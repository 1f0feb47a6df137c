package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"

	"teleport-update/find/server/parts"
)

var (
	errChanging = errors.New("the file changed while it was read")
	errBusy     = errors.New("too many checksums are being computed")
)

// maxReadings is how many files may be open at once to be read for their checksums.
const maxReadings = 16

// digests computes the sha256 of files and remembers it while the file stays the same.
// However many ask at once, a file is read once, and one file at a time: the answers to
// hosts come before checksums. If a file changes, such as one that is being copied into
// the folder, a new reading ends the one before, whose waiters get errChanging.
type digests struct {
	mu       sync.Mutex
	byName   map[string]*digest
	readings int           // with an open file
	turn     chan struct{} // held by the active reading
}

type digest struct {
	id     parts.FileID
	cancel context.CancelCauseFunc // ends the reading
	done   chan struct{}           // closed once sum or err is there
	sum    string
	err    error
}

// get closes f.
func (d *digests) get(ctx context.Context, name string, f *os.File, info os.FileInfo) (string, error) {
	id := parts.Identify(info)
	found, err := d.find(name, id, f)
	if err != nil {
		f.Close()
		return "", err
	}
	select {
	case <-found.done:
		return found.sum, found.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// find returns the digest of a file, and begins to read the file unless that has begun.
// It takes f over unless there is an error.
func (d *digests) find(name string, id parts.FileID, f *os.File) (*digest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.byName[name]
	if found != nil && found.id == id {
		f.Close()
		return found, nil
	}
	if found != nil {
		found.cancel(errChanging)
	}
	if d.readings >= maxReadings {
		return nil, errBusy
	}
	if d.byName == nil {
		d.byName, d.turn = make(map[string]*digest), make(chan struct{}, 1)
	}
	d.readings++
	// Not the context of the request, so that other waiters do not lose the result when
	// the first one goes away.
	ctx, cancel := context.WithCancelCause(context.Background())
	found = &digest{id: id, cancel: cancel, done: make(chan struct{})}
	d.byName[name] = found
	go d.compute(ctx, name, found, f)
	return found, nil
}

func (d *digests) compute(ctx context.Context, name string, to *digest, f *os.File) {
	defer close(to.done)
	defer to.cancel(nil)
	select {
	case d.turn <- struct{}{}:
		to.sum, to.err = sum(ctx, f, to.id)
		<-d.turn
	case <-ctx.Done():
		to.err = context.Cause(ctx)
	}
	f.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readings--
	if to.err != nil && d.byName[name] == to {
		delete(d.byName, name) // the next request tries again
	}
}

// reading ends when its context does.
type reading struct {
	context.Context
	io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if r.Err() != nil {
		return 0, context.Cause(r)
	}
	return r.Reader.Read(p)
}

func sum(ctx context.Context, f *os.File, id parts.FileID) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, reading{ctx, f}); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if parts.Identify(info) != id {
		return "", errChanging
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
