package fetch

import (
	"context"
	"fmt"

	"teleport-update/internal/space"
)

// Estimate is the cost of a fetch, as far as servers say it beforehand.
type Estimate struct {
	From     string // the first mirror that has the release, as it may be logged
	Download int64  // bytes of the tarball; -1 when the server does not say
	At       string // the folder of the new version
	Need     int64  // bytes that must be free there, with Request.Extra if those go to the same file system
	Free     int64  // bytes that are free there
}

// Estimate asks the mirrors for a release without fetching it. It writes nothing. If no mirror has
// the release, it returns the error of the last one.
func (f *Fetcher) Estimate(ctx context.Context, req Request) (Estimate, error) {
	e := Estimate{Download: -1}
	mirrors, err := f.mirrorsOf(req.Release, req.Sources)
	if err != nil {
		return e, err
	}
	for _, m := range mirrors {
		if e.Download, err = m.source.size(ctx, m.place); err == nil {
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
	if e.At, e.Need, err = f.Store.Room(e.Need, req.Extra); err != nil {
		return e, err
	}
	free, err := space.At(e.At)
	e.Free = free.Bytes
	return e, err
}
