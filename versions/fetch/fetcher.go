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
	Progress Progress // gets the progress of each download
	Limits   archive.Limits
	Patience Patience
	// Verifier says who allows a tarball; nil: every announced tarball is allowed.
	Verifier Verifier
}

// Patience says how long to try a server.
type Patience struct {
	// Tries is how many attempts in a row may bring nothing new before the next mirror is tried.
	Tries int
	// Backoff is the pause after the first failed attempt; it doubles up to MaxBackoff. Each pause is
	// multiplied by a random factor from a half to one and a half.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// A connection that brings fewer than StallBytes within StallWindow of waiting for them is given
	// up.
	StallWindow time.Duration
	StallBytes  int64
	// A server that would take longer than Slow for the missing bytes is left for the next mirror,
	// and tried again after the others. 0: no server is too slow.
	Slow time.Duration
	// A download whose first 8 MiB take longer than KeepAfter is kept for the next run if this run
	// ends early.
	KeepAfter time.Duration
	// Random spreads the pauses: from 0 up to 1.
	Random func() float64
}

// New returns a fetcher with default limits and patience: it logs its progress, gives a server 30
// seconds for 30 KiB, and leaves a server that would take more than an hour for another one.
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

// givesUp reports whether a mirror is left after so many attempts; err ended the last one. A server that asks to
// wait longer than the longest pause is not asked again in this run.
func (f *Fetcher) givesUp(err error, tries int) bool {
	return permanent(err) || tries >= f.Patience.Tries || askedToWait(err) > f.Patience.MaxBackoff
}

// pause waits before the next attempt; err ended the last one. It waits twice as long each time, more or less by
// half, so that hosts cut off together do not come back together, and adds the time for which the server asks to
// wait.
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
