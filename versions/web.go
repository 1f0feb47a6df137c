package versions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"teleport-update/internal/webclient"
)

// web is the source of https URLs, and of http URLs to a loopback address.
type web struct{}

func (web) check(u *url.URL) error {
	if err := webclient.CheckURL(u); err != nil {
		return err
	}
	if strings.Trim(u.Path, "/") == "" {
		return fmt.Errorf("%s: the URL names no file", webclient.Redact(u.String()))
	}
	return nil
}

func (web) size(ctx context.Context, f *Fetcher, m mirror) (int64, error) {
	resp, err := f.ask(ctx, http.MethodHead, m, http.Header{})
	if err != nil {
		return -1, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return -1, &statusError{url: m.name, code: resp.StatusCode, status: resp.Status}
	}
	return resp.ContentLength, nil
}

// open gives up a server that sends too little, see Patience.
func (web) open(ctx context.Context, f *Fetcher, m mirror, offset int64, v validator) (*part, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatch(f.Patience.StallWindow, f.Patience.StallBytes, cancel)
	p, err := f.get(ctx, m, offset, v)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", m.name, context.Cause(ctx))
		}
		w.end()
		return nil, err
	}
	w.wait()(0)
	p.body = &watchedBody{ctx: ctx, body: p.body, watch: w}
	return p, nil
}

func (f *Fetcher) get(ctx context.Context, m mirror, offset int64, v validator) (*part, error) {
	header := make(http.Header)
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if condition := v.condition(); condition != "" {
			header.Set("If-Range", condition)
		}
	}
	resp, err := f.ask(ctx, http.MethodGet, m, header)
	if err != nil {
		return nil, err
	}
	p, err := partOf(resp, m, offset, v)
	if err != nil {
		resp.Body.Close()
	}
	return p, err
}

// ask makes a request for the tarball as it is stored.
func (f *Fetcher) ask(ctx context.Context, method string, m mirror, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.url.String(), nil)
	if err != nil {
		return nil, webclient.RedactError(err)
	}
	req.Header = header
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return nil, named(err, m)
	}
	return resp, nil
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

// condition is the value for If-Range: a strong entity tag, else the date.
func (v validator) condition() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
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
			return nil, unusable("%s answered with bytes %.40q, not with those from %d on", m.name, resp.Header.Get("Content-Range"), offset)
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
		return nil, unusable("%s sends the tarball with Content-Encoding %.20q, so it would not match its checksum; the server must send files as they are", m.name, encoding)
	}
	if v.contradicts(p.valid) {
		return nil, errChanged
	}
	return p, nil
}

// parseContentRange reads "bytes 5-9/10" or "bytes 5-9/*".
func parseContentRange(s string) (start, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, whole, _ := strings.Cut(s, "/")
	first, last, _ := strings.Cut(span, "-")
	start, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	if !ok || err1 != nil || err2 != nil || start < 0 || end < start {
		return 0, 0, false
	}
	if whole == "*" {
		return start, -1, true
	}
	total, err := strconv.ParseInt(whole, 10, 64)
	return start, total, err == nil && total > end
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

// permanentOfWeb is permanent for what servers and the client say.
func permanentOfWeb(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		switch status.code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return status.code < 500
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, refused := errors.AsType[*webclient.RefusedError](err)
	return untrusted || refused
}
