package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/console"
	"teleport-update/internal/webclient"
)

// web is the source of https URLs, and of http URLs to a loopback address.
type web struct{ reach }

func checkWeb(u *url.URL) error {
	if err := webclient.CheckURL(u); err != nil {
		return err
	}
	if strings.Trim(u.Path, "/") == "" {
		return fmt.Errorf("%s: the URL names no file", webclient.Redact(u.String()))
	}
	return nil
}

func (w web) size(ctx context.Context, at place) (int64, error) {
	resp, err := w.ask(ctx, http.MethodHead, at, http.Header{})
	if err != nil {
		return -1, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return -1, unexpected(resp, at)
	}
	return resp.ContentLength, nil
}

// open gives up a server that sends too little, see reach.
func (w web) open(ctx context.Context, at place, offset int64, v validator) (*part, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := newWatch(w.stallWindow, w.stallBytes, cancel)
	p, err := w.get(ctx, at, offset, v)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", at.name, context.Cause(ctx))
		}
		watch.end()
		return nil, err
	}
	watch.wait()(0)
	p.body = &watchedBody{ctx: ctx, body: p.body, watch: watch}
	return p, nil
}

func (w web) get(ctx context.Context, at place, offset int64, v validator) (*part, error) {
	header := make(http.Header)
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if condition := v.condition(); condition != "" {
			header.Set("If-Range", condition)
		}
	}
	resp, err := w.ask(ctx, http.MethodGet, at, header)
	if err != nil {
		return nil, err
	}
	p, err := partOf(resp, at, offset, v)
	if err != nil {
		resp.Body.Close()
	}
	return p, err
}

// ask makes a request for the tarball as it is stored.
func (w web) ask(ctx context.Context, method string, at place, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.url.String(), nil)
	if err != nil {
		return nil, webclient.RedactError(err)
	}
	req.Header = header
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, named(err, at)
	}
	return resp, nil
}

// named replaces the text that net/http writes before an error by the URL alone; after a redirect,
// by the last URL.
func named(err error, at place) error {
	name := at.name
	if e, ok := errors.AsType[*url.Error](err); ok {
		name, err = webclient.Redact(e.URL), e.Err
	}
	return fmt.Errorf("%s: %w", name, webclient.RedactError(err))
}

// condition is the value for If-Range: a strong entity tag, else the date.
func (v validator) condition() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
}

func partOf(resp *http.Response, at place, offset int64, v validator) (*part, error) {
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
			return nil, unusable("%s answered with bytes %.40q, not with those from %d on", at.name, resp.Header.Get("Content-Range"), offset)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		// We have all bytes, or more than the server.
		if n, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes */"); ok && n == strconv.FormatInt(offset, 10) {
			resp.Body.Close()
			return &part{body: http.NoBody, offset: offset, total: offset, valid: v}, nil
		}
		return nil, errChanged
	default:
		return nil, unexpected(resp, at)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, unusable("%s sends the tarball with Content-Encoding %.20q, so it would not match its checksum; "+
			"the server must send files as they are", at.name, encoding)
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
	start, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil || start < 0 {
		return 0, 0, false
	}
	end, err := strconv.ParseInt(last, 10, 64)
	if err != nil || end < start {
		return 0, 0, false
	}
	if whole == "*" {
		return start, -1, true
	}
	total, err = strconv.ParseInt(whole, 10, 64)
	return start, total, err == nil && total > end
}

// statusError is an answer with a status that we cannot use.
type statusError struct {
	url    string
	code   int
	status string
	retry  webclient.RetryAfter
}

func unexpected(resp *http.Response, at place) *statusError {
	retry := webclient.ParseRetryAfter(resp.Header)
	return &statusError{url: at.name, code: resp.StatusCode, status: console.Excerpt(resp.Status, 60), retry: retry}
}

func (e *statusError) Error() string {
	if e.Unwrap() == ErrNotFound {
		return fmt.Sprintf("%s is not there (%d %s)", e.url, e.code, http.StatusText(e.code))
	}
	return fmt.Sprintf("%s: the server answered %q%s", e.url, e.status, e.retry)
}

func (e *statusError) Unwrap() error {
	if e.code == http.StatusNotFound || e.code == http.StatusGone {
		return ErrNotFound
	}
	return nil
}

// askedToWait returns how long the server asks us to wait, if err is a server's answer.
func askedToWait(err error) time.Duration {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.retry.Wait(time.Now())
	}
	return 0
}

// permanentOfWeb is permanent for errors of servers and of the HTTP client.
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
