package versions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
	"teleport-update/versions/archive"
)

// Fetcher brings releases onto this host.
type Fetcher struct {
	Store    *Store       // where Fetch puts releases; Save and Checksum need none
	HTTP     *http.Client // from webclient.New, for URLs of the web
	Log      *slog.Logger
	Progress Progress // is told how the download goes
	Limits   archive.Limits
	Patience Patience
}

// Patience says how long a server is given.
type Patience struct {
	// Tries is how many attempts in a row may bring nothing new before the
	// next mirror gets its turn.
	Tries int
	// Backoff is the pause after the first failed attempt; it doubles up to
	// MaxBackoff, and each is spread from half to one and a half of it.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// A connection that brings fewer than StallBytes within StallWindow of waiting
	// for them is given up.
	StallWindow time.Duration
	StallBytes  int64
	// A server that would take longer than Slow for what is missing gives way to the
	// next mirror, and has its turn again after the others. 0: none does.
	Slow time.Duration
	// A download whose first 8 MiB take longer than KeepAfter is kept for the
	// next run should this one end early.
	KeepAfter time.Duration
	// Random spreads the pauses: from 0 up to 1.
	Random func() float64
}

// NewFetcher returns a fetcher with the defaults for everything else: it logs
// its progress, gives a server 30 seconds for 30 KiB, and leaves one that would take
// more than an hour for another.
func NewFetcher(store *Store, client *http.Client, log *slog.Logger) *Fetcher {
	return &Fetcher{
		Store:    store,
		HTTP:     client,
		Log:      log,
		Progress: NewStepLog(log),
		Limits:   archive.DefaultLimits(),
		Patience: Patience{
			Tries:       5,
			Backoff:     time.Second,
			MaxBackoff:  30 * time.Second,
			StallWindow: 30 * time.Second,
			StallBytes:  30 << 10,
			Slow:        time.Hour,
			KeepAfter:   time.Second,
			Random:      rand.Float64,
		},
	}
}

// FetchRequest says what to fetch.
type FetchRequest struct {
	Release Release // with an edition
	// Sources make the URLs to try, the primary first.
	Sources []*Template
	// ExpectSHA256 is what the tarball must have, whatever the servers
	// announce. Empty: what the first server that answers announces.
	ExpectSHA256 string
	// Active is the release that runs now, if any: the new one will take about
	// as much.
	Active *Tree
	// Beside is the release that the host is on, which keeps its folder also where the mark
	// of its edition is lost.
	Beside Release
	// Extra is how many bytes must stay free beside the release, say for the
	// backup of the agent's database.
	Extra int64
	// Replace fetches a release that is here already; the two trees change
	// places in one step, and backup/ stays.
	Replace bool
	// Claim, if any, has the tree claimed before anybody else can find it.
	Claim *Claim
}

// Fetch returns the release as a complete tree, on stable storage.
//
// A tree that is here already is compared with its manifest. An intact one is
// returned as it is, without asking any server: a release that was published
// again under the same version is only noticed when Replace asks for it. A damaged one is
// replaced as if Replace had been set. A process that runs from the tree that
// was replaced goes on, but its executable is then a deleted file.
//
// Mirrors are tried in order. One error names each that failed and why; it
// matches ErrNotFound, *ChecksumError and so on where one of them did.
// *space.Error, and any other trouble of this host, ends the attempt at once.
// Whatever fails, nothing is left behind but a kept download.
func (f *Fetcher) Fetch(ctx context.Context, req FetchRequest) (Tree, error) {
	if err := req.Release.Check(); err != nil {
		return Tree{}, fmt.Errorf("fetch: %w", err)
	}
	if tree, ok, err := f.intact(ctx, req); ok || err != nil {
		return tree, err
	}
	mirrors, err := mirrorsOf(req)
	if err != nil {
		return Tree{}, err
	}
	f.Progress.Start(req.Release.String())
	defer f.Progress.End()

	return fromMirrors(ctx, f, "fetch", req, mirrors, func(d *download) (Tree, error) { return f.receive(ctx, d, req) })
}

// fromMirrors lets take have one download after the other, until it makes
// something of one. A mirror is left for the next one when it fails, but is asked
// once more where pieces of two downloads did not fit.
func fromMirrors[T any](ctx context.Context, f *Fetcher, verb string, req FetchRequest, mirrors []mirror, take func(*download) (T, error)) (T, error) {
	var none T
	failed := &failures{release: req.Release}
	for restarts := 0; len(mirrors) > 0; {
		d, err := f.begin(ctx, mirrors, req.ExpectSHA256, failed)
		if err != nil {
			return none, err
		}
		got, err := take(d)
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return none, fmt.Errorf("%s version %s: %w", verb, req.Release, context.Cause(ctx))
		}
		if local, ok := errors.AsType[*localError](err); ok {
			return none, fmt.Errorf("%s version %s: %w", verb, req.Release, local.err)
		}
		if errors.Is(err, error(failed)) {
			return none, failed
		}
		mirrors = d.mirrors
		_, again := errors.AsType[*restartError](err)
		if (again || d.stitched) && restarts < maxRestarts {
			// Pieces of two tarballs, or a bad kept piece: once more, whole.
			restarts++
			f.Log.Warn("starting the download again", "url", mirrors[0].name, "error", err)
			continue
		}
		failed.add(mirrors[0], err)
		mirrors = mirrors[1:]
	}
	return none, failed
}

// Checksum returns the SHA-256 that the sources announce for a release's
// tarball: the first to answer, as 64 hex digits in lower case. Each is asked
// once, for this is a look in passing and not worth waiting for.
func (f *Fetcher) Checksum(ctx context.Context, r Release, sources []*Template) (string, error) {
	if err := r.Check(); err != nil {
		return "", fmt.Errorf("read the checksum: %w", err)
	}
	mirrors, err := mirrorsOf(FetchRequest{Release: r, Sources: sources})
	if err != nil {
		return "", err
	}
	failed := &failures{release: r}
	for _, m := range mirrors {
		digest, err := f.checksum(ctx, m)
		if err == nil {
			return digest, nil
		}
		failed.add(m, err)
	}
	return "", failed
}

// maxRestarts is how often one fetch may begin again from its first byte.
const maxRestarts = 3

// intact returns the tree of the release if it is here and good enough.
func (f *Fetcher) intact(ctx context.Context, req FetchRequest) (Tree, bool, error) {
	tree, ok, err := f.Store.Lookup(req.Release)
	if err != nil || !ok || req.Replace || tree.Origin != "" {
		return Tree{}, false, err
	}
	if req.ExpectSHA256 != "" && tree.SHA256 != req.ExpectSHA256 {
		return Tree{}, false, nil
	}
	err = tree.Verify(ctx)
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		f.Log.Warn("the version on disk is damaged; fetching it again", "version", req.Release.Version, "error", damaged)
		return Tree{}, false, nil
	}
	return tree, err == nil, err
}

func mirrorsOf(req FetchRequest) ([]mirror, error) {
	if len(req.Sources) == 0 {
		return nil, errors.New("fetch: no URL template is given")
	}
	var mirrors []mirror
	for _, source := range req.Sources {
		u, err := source.URL(req.Release)
		if err != nil {
			return nil, err
		}
		mirrors = append(mirrors, newMirror(u))
	}
	return mirrors, nil
}

// receive runs one download to the published tree.
func (f *Fetcher) receive(ctx context.Context, d *download, req FetchRequest) (_ Tree, err error) {
	var cancel context.CancelCauseFunc
	d.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	dir := f.Store.PartialDir()
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return Tree{}, &localError{space.Explain(err, filepath.Dir(dir))}
	}
	// What is in it is about to be removed.
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return Tree{}, &localError{fmt.Errorf("%s is not a folder of ours but leads elsewhere: remove it", dir)}
	}
	f.clean(dir, d.digest)
	d.keep = openKeeper(dir, d.digest, f.Patience.KeepAfter, f.Log)
	d.valid, d.total = d.keep.known(d.mirrors[0])
	defer func() {
		d.close()
		if err != nil && (ctx.Err() != nil || errors.Is(err, error(d.failed))) {
			d.keep.end() // the network's fault, or somebody was in a hurry
		} else {
			d.keep.drop()
		}
	}()
	if d.keep.have == 0 {
		// Before anything is written: the length tells what space is needed.
		if err := d.connect(); err != nil {
			return Tree{}, err
		}
	}
	need, err := req.need(d.total)
	if err != nil {
		return Tree{}, &localError{err}
	}
	if d.keep.need, err = f.Store.checkRoom(need, req.Extra); err != nil {
		return Tree{}, &localError{err}
	}
	at, err := f.Store.stage(req.Release)
	defer func() {
		if err != nil {
			at.remove()
		}
	}()
	if err == nil {
		err = req.Claim.Take(at.record)
	}
	if err != nil {
		return Tree{}, &localError{err}
	}
	f.Log.Info("downloading", "version", req.Release.Version, "edition", req.Release.Edition, "url", d.mirrors[0].name, "bytes", d.total)
	if err := f.stream(d, cancel, at, need-req.Extra, req.Release); err != nil {
		return Tree{}, err
	}
	tree, err := f.Store.publish(at, req.Release, req.Beside, d.digest)
	if err != nil {
		return Tree{}, &localError{space.Explain(err, f.Store.Dir)}
	}
	return tree, nil
}

// clean removes what earlier fetches left, but for a kept download of this
// very tarball. What cannot be removed now is tried again next time.
func (f *Fetcher) clean(dir, digest string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	leftovers := f.Store.stagedPrograms()
	for _, e := range entries {
		if strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())) != digest {
			leftovers = append(leftovers, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range leftovers {
		if err := durable.RemoveTemp(path); err != nil {
			f.Log.Debug("cannot remove a leftover of a download", "error", err)
		}
	}
}
