package versions

import (
	"context"
	"fmt"

	"teleport-update/internal/space"
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
		if e.Download, err = m.source.size(ctx, f, m); err == nil {
			e.From = m.name
			break
		}
	}
	if err != nil {
		return e, fmt.Errorf("ask for version %s: %w", req.Release, err)
	}
	if e.Need, err = req.need(e.Download); err != nil {
		return e, err
	}
	free, err := space.At(f.Store.Dir)
	e.Free = free.Bytes
	return e, err
}
