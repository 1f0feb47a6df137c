package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"time"

	"teleport-update/internal/webclient"
)

// source is a kind of place that tarballs and the files beside them come from.
type source interface {
	// size returns how many bytes are at a place, -1 when that is not said.
	size(ctx context.Context, at place) (int64, error)
	// open starts to receive what is at a place from byte offset on, or from an
	// earlier one where that cannot be done. v is what an earlier part of it was, as
	// far as known.
	open(ctx context.Context, at place, offset int64, v validator) (*part, error)
}

// reach is what sources need to reach their places.
type reach struct {
	http *http.Client
	// A connection that brings fewer than stallBytes within stallWindow of waiting for them
	// is given up.
	stallWindow time.Duration
	stallBytes  int64
}

// scheme is a kind of URL: what makes one that can name a tarball, and the source behind it.
type scheme struct {
	check  func(*url.URL) error
	source func(reach) source
}

// schemes are told by their names in URLs. Another one is a file of its own and its line
// here.
var schemes = map[string]scheme{
	"file": {checkFolder, func(reach) source { return folder{} }},
}

// schemeOf leaves all other schemes to web, which refuses those that nobody knows.
func schemeOf(u *url.URL) scheme {
	if s, ok := schemes[u.Scheme]; ok {
		return s
	}
	return scheme{checkWeb, func(r reach) source { return web{r} }}
}

// mirror is one place that may have the release, with the source that gets it from there.
type mirror struct {
	place
	source source
	// os and arch are of the hosts that its tarball is for.
	os, arch string
	slow     bool // it was left for one that may be faster
}

func newMirror(u *url.URL, r reach) mirror {
	return mirror{place: placeAt(u), source: schemeOf(u).source(r)}
}

// sibling is the mirror of the file that has the tarball's name and a suffix.
func (m mirror) sibling(suffix string) mirror {
	return mirror{place: placeAt(siblingURL(m.url, suffix)), source: m.source}
}

// siblingURL is the URL with a suffix after its path; a query stays.
func siblingURL(u *url.URL, suffix string) *url.URL {
	sibling := *u
	sibling.Path += suffix
	if sibling.RawPath != "" {
		sibling.RawPath += suffix
	}
	return &sibling
}

// read returns at most limit bytes of what is at the mirror, and whether there were more.
func (m mirror) read(ctx context.Context, limit int64) (data []byte, more bool, err error) {
	p, err := m.source.open(ctx, m.place, 0, validator{})
	if err != nil {
		return nil, false, err
	}
	defer p.body.Close()
	data, err = io.ReadAll(io.LimitReader(p.body, limit+1))
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", m.name, webclient.RedactError(webclient.PlainError(err)))
	}
	if int64(len(data)) > limit {
		return data[:limit], true, nil
	}
	return data, false, nil
}

// checksum reads the digest that a mirror announces for its tarball.
func (m mirror) checksum(ctx context.Context) (string, error) {
	at := m.sibling(checksumSuffix)
	data, _, err := at.read(ctx, maxChecksum)
	if err != nil {
		return "", err
	}
	digest, err := parseChecksum(data, path.Base(m.url.Path))
	if err != nil {
		return "", unusable("%s: %v", at.name, err)
	}
	return digest, nil
}

// isUnusable returns why an answer cannot be used, if that is what the error says.
func isUnusable(err error) (text string, ok bool) {
	wrong, ok := errors.AsType[*unusableError](err)
	if ok {
		text = wrong.text
	}
	return text, ok
}
