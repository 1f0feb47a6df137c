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

// source is a kind of place with tarballs and the files beside them.
type source interface {
	// size returns the size of the file at a place, -1 if unknown.
	size(ctx context.Context, at place) (int64, error)
	// open starts to receive the file at a place from byte offset on, or from an earlier byte if that
	// is not possible. v is the validator of an earlier part, as far as known.
	open(ctx context.Context, at place, offset int64, v validator) (*part, error)
}

// reach holds everything that sources need to reach their places.
type reach struct {
	http *http.Client
	// A connection that brings fewer than stallBytes within stallWindow of waiting for them is given
	// up.
	stallWindow time.Duration
	stallBytes  int64
}

// scheme is a kind of URL: a check whether a URL can name a tarball, and the source behind it.
type scheme struct {
	check  func(*url.URL) error
	source func(reach) source
}

// schemes maps the names of schemes in URLs. Another scheme is a file of its own and a line here.
var schemes = map[string]scheme{
	"file": {checkFolder, func(reach) source { return folder{} }},
}

// schemeOf leaves all other schemes to web, which refuses unknown ones.
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
	// os and arch are the kind of hosts that its tarball is for.
	os, arch string
	slow     bool // it was left for another one that may be faster
}

func newMirror(u *url.URL, r reach) mirror {
	return mirror{place: placeAt(u), source: schemeOf(u).source(r)}
}

// sibling returns the mirror of the file that has the tarball's name and a suffix.
func (m mirror) sibling(suffix string) mirror {
	return mirror{place: placeAt(siblingURL(m.url, suffix)), source: m.source}
}

// siblingURL returns the URL with a suffix after its path; a query stays.
func siblingURL(u *url.URL, suffix string) *url.URL {
	sibling := *u
	sibling.Path += suffix
	if sibling.RawPath != "" {
		sibling.RawPath += suffix
	}
	return &sibling
}

// read returns at most limit bytes of the mirror's file, and whether there were more.
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

// isUnusable returns why an answer cannot be used, if the error is an unusableError.
func isUnusable(err error) (text string, ok bool) {
	wrong, ok := errors.AsType[*unusableError](err)
	if ok {
		text = wrong.text
	}
	return text, ok
}
