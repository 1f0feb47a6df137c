package versions

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"teleport-update/internal/webclient"
)

// Estimate is what a fetch would take, as far as servers say it beforehand.
type Estimate struct {
	From     string // the first mirror that has the release, as it may be logged
	Download int64  // bytes of the tarball; -1 when the server does not say
	Need     int64  // bytes that must be free in the store, FetchRequest.Extra with them
	Free     int64  // bytes that are
}

// Estimate asks the mirrors for a release without fetching it. Nothing is
// written. The error is that of the last mirror, when none has the release.
func (f *Fetcher) Estimate(ctx context.Context, req FetchRequest) (Estimate, error) {
	e := Estimate{Download: -1}
	mirrors, err := mirrorsOf(req)
	if err != nil {
		return e, err
	}
	for _, m := range mirrors {
		if e.Download, err = f.length(ctx, m); err == nil {
			e.From = m.name
			break
		}
	}
	if err != nil {
		return e, fmt.Errorf("ask for version %s: %w", req.Release, err)
	}
	var active int64
	if req.Active != nil {
		if active, _, err = req.Active.size(); err != nil {
			return e, fmt.Errorf("measure the active version: %w", err)
		}
	}
	e.Need = spaceNeeded(active, e.Download, req.Extra)
	free, err := roomAt(existing(f.Store.Dir))
	e.Free = free.bytes
	return e, err
}

// length asks for the size of a tarball: -1 when the server does not say.
func (f *Fetcher) length(ctx context.Context, m mirror) (int64, error) {
	if m.url.Scheme == "file" {
		p, err := openFile(m.url.Path, 0)
		if err != nil {
			return -1, err
		}
		return p.total, p.body.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, m.url.String(), nil)
	if err != nil {
		return -1, webclient.RedactError(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return -1, webclient.RedactError(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return -1, &statusError{url: m.name, code: resp.StatusCode, status: resp.Status}
	}
	return resp.ContentLength, nil
}

// existing is the nearest folder of a path that is there: what is not made yet
// will be on its file system.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}
