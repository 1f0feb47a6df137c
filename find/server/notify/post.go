package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/internal/regular"
	"teleport-update/internal/webclient"
)

const (
	// postTime bounds a post, from the name of the receiver to its answer.
	postTime = 10 * time.Second
	// maxAnswer is how much of an answer is read, so that the connection ends well. What
	// it says is of no interest.
	maxAnswer = 64 << 10
	// maxAfter bounds what a receiver may ask for by Retry-After.
	maxAfter = 24 * time.Hour
	maxURL   = 4096
)

// Result is what came of a post.
type Result string

// The results.
const (
	Delivered Result = "delivered"
	Failed    Result = "failed"   // it is tried again
	GivenUp   Result = "given_up" // it was tried for days
	Gone      Result = "gone"     // the receiver wants nothing more: 410
	// Lost is one that there is nothing left to post of; people are told GivenUp.
	Lost Result = "lost"
)

// Results are those that are told.
var Results = []Result{Delivered, Failed, GivenUp, Gone}

// outcome is a result with the reason.
type outcome struct {
	result Result
	after  time.Duration // that the receiver wants to be left alone for
	err    error         // of all but Delivered
}

// post tells a webhook an event, once. Errors name no URL: the path of one may be secret.
func (n *Notifier) post(ctx context.Context, h *rollout.Notify, id string, content rollout.Notice, now time.Time) outcome {
	failed := func(err error) outcome { return outcome{result: Failed, err: err} }
	address, err := addressOf(h)
	if err != nil {
		return failed(err)
	}
	keys, err := readKeys(h.Spec.SecretFile)
	if err != nil {
		return failed(err)
	}
	body, err := message(content)
	if err != nil {
		return failed(err)
	}
	client, err := webclient.New(webclient.Options{CAFile: h.Spec.CAFile, Trust: "spec.ca_file of the webhook",
		UserAgent: "teleport-find/" + n.opts.Version})
	if err != nil {
		return failed(err)
	}
	defer client.CloseIdleConnections()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx, cancel := context.WithTimeout(ctx, n.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return failed(errors.New("its URL is none"))
	}
	req.Header.Set("Content-Type", "application/json")
	sign(req.Header, keys, id, now, body)
	resp, err := client.Do(req)
	if err != nil {
		return failed(n.explain(ctx, err))
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, maxAnswer) // the status has said it all
	return judge(resp, now)
}

// judge goes by the status alone.
func judge(resp *http.Response, now time.Time) outcome {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return outcome{result: Delivered}
	case code == http.StatusGone:
		return outcome{result: Gone, err: errors.New("the receiver answers 410: it wants nothing more")}
	case code >= 300 && code < 400:
		return outcome{result: Failed, err: fmt.Errorf("the receiver answers %d, and redirects are not followed: give the webhook "+
			"the address that it redirects to", code)}
	}
	after := min(webclient.ParseRetryAfter(resp.Header).Wait(now), maxAfter)
	return outcome{result: Failed, after: after, err: fmt.Errorf("the receiver answers %d", code)}
}

// explain leaves the URL out of an error of net/http.
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

// addressOf returns the URL of a webhook, of its file if it is in one.
func addressOf(h *rollout.Notify) (string, error) {
	if h.Spec.URL != "" {
		return h.Spec.URL, nil
	}
	data, err := regular.Read(h.Spec.URLFile, maxURL, 0)
	if err != nil {
		return "", fmt.Errorf("read its URL: %w", err)
	}
	text := strings.TrimSpace(string(data))
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%s holds no URL", h.Spec.URLFile)
	}
	if webclient.CheckURL(u) != nil {
		return "", fmt.Errorf("the URL in %s is neither https nor http to a loopback address", h.Spec.URLFile)
	}
	return text, nil
}
