package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"

	"teleport-update/internal/webclient"
)

// source is a kind of place that tarballs and their checksums come from. It has no
// state: what a URL or a request needs is in the mirror and the fetcher.
type source interface {
	// check returns an error unless u can name a tarball at such a place.
	check(u *url.URL) error
	// size returns how many bytes are at a mirror's URL, -1 when that is not said.
	size(ctx context.Context, f *Fetcher, m mirror) (int64, error)
	// open starts to receive what is at a mirror's URL from byte offset on, or from an
	// earlier one where that cannot be done. v is what an earlier part of it was, as
	// far as known.
	open(ctx context.Context, f *Fetcher, m mirror, offset int64, v validator) (*part, error)
}

// sources are told by the scheme of a URL. Another one is a file of its own and its
// line here.
var sources = map[string]source{
	"file": folder{},
}

// sourceOf leaves all other schemes to web, which refuses those that nobody knows.
func sourceOf(u *url.URL) source {
	if s, ok := sources[u.Scheme]; ok {
		return s
	}
	return web{}
}

// ErrNotFound says that a source does not have the release.
var ErrNotFound = errors.New("release not found")

// errChanged says that what is behind a URL is no longer what it was.
var errChanged = errors.New("the tarball changed at the server while it was downloaded")

// unusableError is an answer with which nothing can be done: not worth another try.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

func unusable(format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...)}
}

// permanent reports whether trying the same mirror again is of no use.
func permanent(err error) bool {
	_, useless := errors.AsType[*unusableError](err)
	return useless || permanentOfWeb(err) || errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrPermission)
}

// mirror is one place that may have the release.
type mirror struct {
	source source
	url    *url.URL
	name   string // the URL as it may be logged
	slow   bool   // it was left for one that may be faster
}

func newMirror(u *url.URL) mirror {
	return mirror{source: sourceOf(u), url: u, name: webclient.Redact(u.String())}
}

// validator identifies one state of what is behind a URL, as far as the server
// says it (RFC 9110, section 8.8).
type validator struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// contradicts reports whether the two cannot belong to the same content.
func (v validator) contradicts(w validator) bool {
	return v.ETag != "" && w.ETag != "" && v.ETag != w.ETag ||
		(v.ETag == "" || w.ETag == "") && v.LastModified != "" && w.LastModified != "" && v.LastModified != w.LastModified
}

// part is a tarball from some byte on, being received.
type part struct {
	body   io.ReadCloser
	offset int64 // of the first byte
	total  int64 // bytes of the whole tarball; -1 when not said
	valid  validator
	// local says that the tarball is on this host, so that a kept copy would be a
	// second one.
	local bool
}

// checksum reads the digest that a mirror announces for its tarball.
func (f *Fetcher) checksum(ctx context.Context, m mirror) (string, error) {
	m = newMirror(checksumURL(m.url))
	p, err := m.source.open(ctx, f, m, 0, validator{})
	if err != nil {
		return "", err
	}
	defer p.body.Close()
	data, err := io.ReadAll(io.LimitReader(p.body, maxChecksum))
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, webclient.RedactError(webclient.PlainError(err)))
	}
	digest, err := parseChecksum(data)
	if err != nil {
		return "", unusable("%s: %v", m.name, err)
	}
	return digest, nil
}
