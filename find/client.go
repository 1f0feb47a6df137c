package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"teleport-update/internal/webclient"
)

const (
	// DefaultTimeout bounds a whole question, the second path included.
	DefaultTimeout = 30 * time.Second
	// maxBody is far above any answer: real proxies add a few KiB of settings
	// for client tools.
	maxBody = 1 << 20
	// excerptBytes is how many bytes of an answer an error quotes.
	excerptBytes = 200
)

// Request is a question to find. Only Proxy is required; empty fields are not sent.
type Request struct {
	Proxy    string // as ParseProxy takes it
	Host     string // the host's UUID, from DATA/host_uuid
	Group    string // the update group
	UpdateID string // the updater's own UUID (Managed Updates v2)
}

// Client asks find endpoints.
type Client struct {
	// HTTP is a client from webclient.New.
	HTTP *http.Client
	// Timeout bounds a whole question; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Ask returns the proxy's answer. It asks at /v1/webapi/find and, after a 404, once more at
// /webapi/find, the path of Managed Updates v2.
//
// An error describes the answer, quotes a little of it, and holds no secret. An
// Answer without an error is complete: a semantic version or none, a known edition,
// a jitter in range.
func (c *Client) Ask(ctx context.Context, req Request) (Answer, error) {
	base, err := ParseProxy(req.Proxy)
	if err != nil {
		return Answer{}, err
	}
	timeout := cmp.Or(c.Timeout, DefaultTimeout)
	whole, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	answer, err := c.ask(whole, *base, "/v1/webapi/find", req)
	if errors.Is(err, errNotFound) {
		answer, err = c.ask(whole, *base, "/webapi/find", req)
		if errors.Is(err, errNotFound) {
			err = fmt.Errorf("%w, and 404 at /v1/webapi/find too (is that the address of a Teleport proxy?)", err)
		}
	}
	if err != nil && whole.Err() != nil && ctx.Err() == nil {
		err = &timeoutError{fmt.Sprintf("ask %s: no complete answer within %s", base, timeout)}
	}
	return answer, err
}

// timeoutError is a question that got no answer in time.
type timeoutError struct{ text string }

func (e *timeoutError) Error() string { return e.text }
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }

// errNotFound is in the error of an answer with status 404.
var errNotFound = errors.New("404 Not Found")

func (c *Client) ask(ctx context.Context, u url.URL, path string, question Request) (answer Answer, err error) {
	u.Path = path
	where := u.String()
	defer func() {
		if err != nil {
			err = webclient.RedactError(fmt.Errorf("ask %s: %w", where, err))
		}
	}()
	query := make(url.Values)
	for name, value := range map[string]string{"host": question.Host, "group": question.Group, "update_id": question.UpdateID} {
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok && e.URL == u.String() {
			err = e.Err // it says all but the address, which is there already
		}
		return Answer{}, err
	}
	defer resp.Body.Close()
	if resp.Request.Response != nil { // the answer that redirected to this one
		final := resp.Request.URL
		where += fmt.Sprintf(" (redirected to %s://%s%s)", final.Scheme, final.Host, final.EscapedPath())
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return Answer{}, errNotFound
	case resp.StatusCode != http.StatusOK:
		wait := webclient.ParseRetryAfter(resp.Header) // the timer asks every ten minutes anyway
		return Answer{}, &statusError{resp.StatusCode, fmt.Sprintf("the answer is %s%s: %s", Excerpt([]byte(resp.Status), 60), wait, quote(body))}
	case err != nil:
		return Answer{}, fmt.Errorf("the answer broke off after %d bytes: %w", len(body), webclient.PlainError(err))
	case len(body) > maxBody:
		return Answer{}, fmt.Errorf("the answer is larger than %d bytes: %s", maxBody, quote(body))
	}
	if answer, err = decode(body); err != nil {
		return Answer{}, fmt.Errorf("the answer cannot be used: %w: %s", err, quote(body))
	}
	return answer, nil
}

// quote marks foreign text, and points out a web page: the sign of a captive portal or of a login
// page in front of the proxy.
func quote(body []byte) string {
	text := Excerpt(body, excerptBytes)
	switch {
	case text == "":
		return "no content"
	case text[0] == '<':
		return "a web page (of a captive portal, or a login page?) “" + text + "”"
	}
	return "“" + text + "”"
}
