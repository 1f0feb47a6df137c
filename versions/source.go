package versions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/internal/webclient"
)

// ErrNotFound says that a server (or folder) does not have the release.
var ErrNotFound = errors.New("release not found")

// errChanged says that what is behind a URL is no longer what it was.
var errChanged = errors.New("the tarball changed at the server while it was downloaded")

// mirror is one place that may have the release.
type mirror struct {
	url  *url.URL
	name string // the URL as it may be logged
}

func newMirror(u *url.URL) mirror {
	return mirror{url: u, name: webclient.Redact(u.String())}
}

// validator identifies one state of what is behind a URL, as far as the server
// says it (RFC 9110, section 8.8).
type validator struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// condition is the value for If-Range: a strong entity tag, else the date.
func (v validator) condition() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
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
	total  int64 // of the whole tarball; -1 when not said
	valid  validator
}

// statusError is an answer that is none of those we can use.
type statusError struct {
	url    string
	code   int
	status string
}

func (e *statusError) Error() string {
	if e.Unwrap() == ErrNotFound {
		return fmt.Sprintf("%s is not there (%d %s)", e.url, e.code, http.StatusText(e.code))
	}
	return fmt.Sprintf("%s: the server answered %q", e.url, e.status)
}

func (e *statusError) Unwrap() error {
	if e.code == http.StatusNotFound || e.code == http.StatusGone {
		return ErrNotFound
	}
	return nil
}

// permanent reports whether trying the same mirror again is of no use.
func permanent(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		switch status.code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return status.code < 500
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*webclient.RefusedError](err); ok {
		return true
	}
	_, refused := errors.AsType[*refusedError](err)
	return refused || errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrPermission)
}

// refusedError is an answer that breaks the protocol: not worth another try.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

func refusef(format string, args ...any) error {
	return &refusedError{fmt.Sprintf(format, args...)}
}

// open starts to receive a mirror's tarball from byte offset on, or from an
// earlier one where the server cannot do that. v is what an earlier part of it
// was, as far as known.
func (f *Fetcher) open(ctx context.Context, m mirror, offset int64, v validator) (*part, error) {
	if m.url.Scheme == "file" {
		return openFile(m.url.Path, offset)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatch(f.Patience.StallWindow, f.Patience.StallBytes, cancel)
	p, err := f.request(ctx, m, offset, v)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", m.name, context.Cause(ctx))
		}
		w.end()
		cancel(nil)
		return nil, err
	}
	w.wait()(0)
	p.body = &watchedBody{ctx: ctx, body: p.body, watch: w, stop: cancel}
	return p, nil
}

func (f *Fetcher) request(ctx context.Context, m mirror, offset int64, v validator) (*part, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url.String(), nil)
	if err != nil {
		return nil, webclient.RedactError(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if condition := v.condition(); condition != "" {
			req.Header.Set("If-Range", condition)
		}
	}
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return nil, named(err, m)
	}
	p, err := partOf(resp, m, offset, v)
	if err != nil {
		resp.Body.Close()
	}
	return p, err
}

// named replaces what net/http writes before an error by the URL alone, that of
// the last redirect if there was one.
func named(err error, m mirror) error {
	at := m.name
	if e, ok := errors.AsType[*url.Error](err); ok {
		at, err = webclient.Redact(e.URL), e.Err
	}
	return fmt.Errorf("%s: %w", at, webclient.RedactError(err))
}

func partOf(resp *http.Response, m mirror, offset int64, v validator) (*part, error) {
	p := &part{
		body:  resp.Body,
		total: -1,
		valid: validator{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")},
	}
	switch resp.StatusCode {
	case http.StatusOK:
		p.total = resp.ContentLength
	case http.StatusPartialContent:
		var ok bool
		if p.offset, p.total, ok = parseContentRange(resp.Header.Get("Content-Range")); !ok || offset == 0 || p.offset != offset {
			return nil, refusef("%s answered with bytes %.40q, not with those from %d on", m.name, resp.Header.Get("Content-Range"), offset)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		// What we have is all there is, or more than there is.
		if n, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes */"); ok && n == strconv.FormatInt(offset, 10) {
			resp.Body.Close()
			return &part{body: http.NoBody, offset: offset, total: offset, valid: v}, nil
		}
		return nil, errChanged
	default:
		return nil, &statusError{url: m.name, code: resp.StatusCode, status: resp.Status}
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, refusef("%s sends the tarball with Content-Encoding %.20q, so it would not match its checksum; the server must send files as they are", m.name, encoding)
	}
	if v.contradicts(p.valid) {
		return nil, errChanged
	}
	return p, nil
}

// parseContentRange reads "bytes 5-9/10" or "bytes 5-9/*".
func parseContentRange(s string) (start, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, whole, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, false
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return 0, 0, false
	}
	start, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	if err1 != nil || err2 != nil || start < 0 || end < start {
		return 0, 0, false
	}
	if whole == "*" {
		return start, -1, true
	}
	total, err := strconv.ParseInt(whole, 10, 64)
	return start, total, err == nil && total > end
}

// openFile opens a tarball on this host, from byte offset on.
func openFile(path string, offset int64) (*part, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refusef("%s is not a regular file", path)
	}
	if err == nil && info.Size() < offset {
		err = errChanged
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &part{body: f, offset: offset, total: info.Size()}, nil
}

// checksum reads the digest that a mirror announces for its tarball.
func (f *Fetcher) checksum(ctx context.Context, m mirror) (string, error) {
	m = newMirror(checksumURL(m.url))
	p, err := f.open(ctx, m, 0, validator{})
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
		return "", refusef("%s: %v", m.name, err)
	}
	return digest, nil
}
