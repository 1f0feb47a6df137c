package fetch

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// Fetcher brings releases onto this host.
type Fetcher struct {
	Store    *versions.Store // where Fetch puts releases; Save and Checksum need none
	HTTP     *http.Client    // from webclient.New, for URLs of the web
	Log      *slog.Logger
	Progress Progress // is told how the download goes
	Limits   archive.Limits
	Patience Patience
	// Verifier says by whom tarballs are allowed; nil: whoever announces them.
	Verifier Verifier
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

// New returns a fetcher with the defaults for everything else: it logs
// its progress, gives a server 30 seconds for 30 KiB, and leaves one that would take
// more than an hour for another.
func New(store *versions.Store, client *http.Client, log *slog.Logger) *Fetcher {
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

// announced returns the checksum that a mirror's tarball must have, with as
// many attempts as Patience allows.
func (f *Fetcher) announced(ctx context.Context, m mirror, expect string) (string, error) {
	if expect != "" {
		return expect, nil
	}
	for try := 1; ; try++ {
		digest, err := m.checksum(ctx)
		if err == nil || f.givesUp(err, try) {
			return digest, err
		}
		f.Log.Warn("reading the checksum failed; trying again", "url", m.name, "attempt", try, "error", err)
		if err := f.pause(ctx, try, err); err != nil {
			return "", err
		}
	}
}

// givesUp reports whether a mirror is left after so many attempts, of which the last ended with err. A server that
// wants to be left alone for longer than the longest pause is not asked again in this run.
func (f *Fetcher) givesUp(err error, tries int) bool {
	return permanent(err) || tries >= f.Patience.Tries || askedToWait(err) > f.Patience.MaxBackoff
}

// pause waits before an attempt, of which the last ended with err: twice as long each time, more or less by
// half, so that hosts cut off together do not come back together; and all of that after the time for which the server
// wants to be left alone.
func (f *Fetcher) pause(ctx context.Context, tries int, err error) error {
	wait := f.Patience.Backoff << min(tries-1, 16)
	wait = min(wait, f.Patience.MaxBackoff)
	wait = time.Duration(float64(wait)*(0.5+f.Patience.Random())) + askedToWait(err)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}
