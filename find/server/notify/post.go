package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/internal/console"
	"teleport-update/internal/regular"
	"teleport-update/internal/webclient"
)

const (
	// postTime bounds a post, from the name of the receiver to its answer.
	postTime = 10 * time.Second
	// maxAnswer is how much of an answer is read, so that the connection ends well.
	maxAnswer = 64 << 10
	// maxSentence is how many characters of a receiver's answer an error quotes.
	maxSentence = 200
	// maxAfter bounds the wait that a receiver may ask for by Retry-After.
	maxAfter = 24 * time.Hour
	maxURL   = 4096
)

// Result is the result of a post.
type Result string

// The results.
const (
	Delivered Result = "delivered"
	Failed    Result = "failed"   // it is posted again
	GivenUp   Result = "given_up" // it is not posted again
)

// Results are all of them.
var Results = []Result{Delivered, Failed, GivenUp}

// outcome is a result with the reason.
type outcome struct {
	result Result
	after  time.Duration // how long the receiver asked to be left alone
	err    error         // nil only for Delivered
}

// sender has everything for a post to a webhook.
type sender struct {
	address *url.URL
	keys    [][]byte
	client  *http.Client
}

// sender reads the files of a webhook.
func (n *Notifier) sender(h *rollout.Notify) (s sender, err error) {
	if s.address, err = addressOf(h); err != nil {
		return s, err
	}
	if s.keys, err = readKeys(h.Spec.SecretFile); err != nil {
		return s, err
	}
	s.client, err = webclient.New(webclient.Options{CAFile: h.Spec.CAFile, Trust: "spec.ca_file of the webhook",
		UserAgent: "teleport-find/" + n.opts.Version})
	if err != nil {
		return s, err
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// post posts an event to a webhook, once. Errors name no URL: the path of one may be secret.
func (n *Notifier) post(ctx context.Context, h *rollout.Notify, e rollout.Notice, now time.Time) outcome {
	failed := func(err error) outcome { return outcome{result: Failed, err: err} }
	s, err := n.sender(h)
	if err != nil {
		return failed(err)
	}
	defer s.client.CloseIdleConnections()
	body, err := message(e)
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, n.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address.String(), bytes.NewReader(body))
	if err != nil {
		return failed(errors.New("its URL is not valid"))
	}
	req.Header.Set("Content-Type", "application/json")
	sign(req.Header, s.keys, e.ID, now, body)
	resp, err := s.client.Do(req)
	if err != nil {
		return failed(n.explain(ctx, err))
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status says whether the receiver took the event
	return judge(resp, sentence(string(answer), s.address), now)
}

// judge decides by the status. The receiver's text gives the reason.
func judge(resp *http.Response, sentence string, now time.Time) outcome {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return outcome{result: Delivered}
	case code >= 300 && code < 400:
		return outcome{result: Failed, err: fmt.Errorf("the receiver answers %d, and redirects are not followed: give the webhook "+
			"the address that it redirects to", code)}
	case code == http.StatusGone: // Standard Webhooks: the receiver wants no more
		return outcome{result: GivenUp, err: fmt.Errorf("the receiver answers 410 (gone)%s", sentence)}
	}
	after := min(webclient.ParseRetryAfter(resp.Header).Wait(now), maxAfter)
	return outcome{result: Failed, after: after, err: fmt.Errorf("the receiver answers %d%s", code, sentence)}
}

// sharedWithURL is a length at which a text in both an answer and a URL is no chance.
const sharedWithURL = 8

// sentence quotes a receiver's answer. It quotes nothing if the answer repeats a part of the URL after the
// host, or of its user info: all of these may be secret.
func sentence(answer string, u *url.URL) string {
	quoted := console.Excerpt(strings.TrimSpace(answer), maxSentence)
	if quoted == "" {
		return ""
	}
	password, _ := u.User.Password()
	basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
	plainQuery, _ := url.QueryUnescape(u.RawQuery)
	for _, secret := range []string{u.Path, u.EscapedPath(), u.RawQuery, plainQuery, u.Fragment, u.User.String(), password, basic} {
		for at := 0; at+sharedWithURL <= len(secret); at++ {
			if strings.Contains(answer, secret[at:at+sharedWithURL]) {
				return ", with an answer that repeats parts of the URL"
			}
		}
	}
	return ": " + quoted
}

// explain removes the URL from an error of net/http.
func (n *Notifier) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the receiver has not answered within %s", n.opts.Timeout)
	}
	for {
		named, is := errors.AsType[*url.Error](err)
		if !is {
			return err
		}
		err = named.Err
	}
}

// addressOf returns the URL of a webhook, from its file if it has one.
func addressOf(h *rollout.Notify) (*url.URL, error) {
	if h.Spec.URL != "" {
		return url.Parse(h.Spec.URL)
	}
	data, err := regular.Read(h.Spec.URLFile, maxURL, 0)
	if err != nil {
		return nil, fmt.Errorf("read its URL: %w", err)
	}
	u, err := url.Parse(strings.TrimSpace(string(data)))
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%s holds no URL", h.Spec.URLFile)
	}
	if webclient.CheckURL(u) != nil {
		return nil, fmt.Errorf("the URL in %s is neither https nor http to a loopback address", h.Spec.URLFile)
	}
	return u, nil
}
