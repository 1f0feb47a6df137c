package fetch

import (
	"errors"
	"fmt"

	"teleport-update/versions"
)

// Request says what to fetch.
type Request struct {
	Release versions.Release // with an edition
	// Sources make the URLs to try, the primary first.
	Sources []*Template
	// ExpectSHA256 is the digest that the tarball must have, whatever the servers announce. Empty:
	// the digest that the first answering server announces.
	ExpectSHA256 string
	// Active is the release that runs now, if any: the new one will take about as much space.
	Active *versions.Tree
	// Linked is the release that the host is on. It keeps its folder even if the mark of its edition
	// is lost.
	Linked versions.Release
	// Extra is how many bytes must stay free beside the release, for example for the backup of the
	// agent's database.
	Extra int64
	// Replace fetches a release that is here already; the two trees change places in one step, and
	// backup/ stays.
	Replace bool
	// Claim, if any, claims the tree before anybody else can find it.
	Claim *versions.Claim
}

// mirrorsOf returns the places that may have a release, the primary first.
func (f *Fetcher) mirrorsOf(r versions.Release, sources []*Template) ([]mirror, error) {
	if len(sources) == 0 {
		return nil, errors.New("fetch: no URL template is given")
	}
	through := reach{http: f.HTTP, stallWindow: f.Patience.StallWindow, stallBytes: f.Patience.StallBytes}
	var mirrors []mirror
	for _, source := range sources {
		u, err := source.URL(r)
		if err != nil {
			return nil, err
		}
		m := newMirror(u, through)
		m.os, m.arch = source.os, source.arch
		mirrors = append(mirrors, m)
	}
	return mirrors, nil
}

// need returns how many bytes must be free for a release whose tarball has length bytes; a
// negative length is unknown.
func (req Request) need(length int64) (int64, error) {
	if req.Active == nil {
		return spaceNeeded(0, length, req.Extra), nil
	}
	active, err := req.Active.Size()
	if err != nil {
		return 0, fmt.Errorf("measure the active version: %w", err)
	}
	return spaceNeeded(active, length, req.Extra), nil
}

// spaceNeeded estimates how many bytes a release needs until it is published: the size of the
// running release and a fifth more, or four times its tarball, whichever is larger. (RFD 0169
// compares the tarball's length itself, which is the length of the compressed release.)
func spaceNeeded(active, length, extra int64) int64 {
	return max(active+active/5, 4*length, 0) + extra
}
