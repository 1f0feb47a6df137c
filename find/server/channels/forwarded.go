package channels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

const (
	// forwardFor is how long an answer of another server is passed on before the server
	// is asked again.
	forwardFor = time.Minute
	// forwardTime bounds one request to the other server, and so the wait of an updater.
	forwardTime = 5 * time.Second
	// maxForwarded is more than any version or yes takes.
	maxForwarded = 256
)

// forward is a channel of another server. Its last good answer stays while the other
// server cannot be asked: otherwise the version would go away for everybody.
type forward struct {
	url   string
	http  *http.Client
	clock func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	last    forwarded
	asked   time.Time
	looking chan struct{} // closed when the present request is over
}

// forwarded is an answer of the other server.
type forwarded struct {
	version  string
	critical bool
	at       time.Time // of the answer; zero for none
	err      error     // of the last request
}

// get returns the answer of the last minute, or asks for one. However many updaters
// ask, there is one request to the other server.
func (f *forward) get(ctx context.Context) forwarded {
	f.mu.Lock()
	if !f.asked.IsZero() && f.clock().Sub(f.asked) < forwardFor {
		defer f.mu.Unlock()
		return f.last
	}
	if f.looking == nil {
		f.looking = make(chan struct{})
		go f.look()
	}
	looking := f.looking
	f.mu.Unlock()
	select {
	case <-looking:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *forward) look() {
	ctx, cancel := context.WithTimeout(context.Background(), forwardTime)
	defer cancel()
	v, err := f.fetch(ctx, "version")
	if err == nil {
		v, err = version.Parse(v)
	}
	critical := false
	if err == nil {
		// Anything but yes is not critical (RFD 0109), nor is a missing file.
		said, failed := f.fetch(ctx, "critical")
		critical = failed == nil && said == "yes"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.last.err == nil {
		f.log.Warn("a forwarded channel cannot be asked, and its last good answer stays", "url", webclient.Redact(f.url), "error",
			webclient.RedactError(err), "version", f.last.version)
	}
	if err == nil && f.last.err != nil {
		f.log.Info("a forwarded channel can be asked again", "url", webclient.Redact(f.url))
	}
	f.last.err = err
	f.asked = f.clock()
	if err == nil {
		f.last = forwarded{version: v, critical: critical, at: f.asked}
	}
	close(f.looking)
	f.looking = nil
}

func (f *forward) fetch(ctx context.Context, what string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/"+what, nil)
	if err != nil {
		return "", err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", webclient.Redact(f.url), resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded+1))
	if err == nil && len(body) > maxForwarded {
		err = errors.New("the answer is too long to be a version")
	}
	return strings.TrimSpace(string(body)), err
}
