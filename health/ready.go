package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// readiness is the latest answer of the ready URL.
type readiness struct {
	ok     bool
	detail string // completes "the URL …"
}

const (
	readyPoll  = time.Second
	readyLimit = 2 * time.Second
)

// prober asks the ready URL again and again. The URL is the operator's own, so
// plain http to any host is fine; https is verified with the system's CAs. No
// proxy is used and no redirect followed: only a 200 of that very URL counts.
type prober struct {
	latest atomic.Pointer[readiness]
}

// readyName returns the URL as it may be shown, without parts that may be secret.
func readyName(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("the ready URL is not an http or https URL")
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), nil
}

// run asks until ctx ends.
func (p *prober) run(ctx context.Context, address string) {
	client := &http.Client{
		Timeout:       readyLimit,
		Transport:     &http.Transport{DisableKeepAlives: true}, // a new connection each time: the listener may be another's by now
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if r := ask(ctx, client, address); ctx.Err() == nil {
			p.latest.Store(&r)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func ask(ctx context.Context, client *http.Client, address string) readiness {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return readiness{detail: "cannot be asked"}
	}
	response, err := client.Do(request)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may hold a secret
		}
		return readiness{detail: fmt.Sprintf("does not answer (%v)", err)}
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return readiness{detail: "answers " + response.Status}
	}
	return readiness{ok: true}
}

func (p *prober) answer() readiness {
	if r := p.latest.Load(); r != nil {
		return *r
	}
	return readiness{detail: "has not answered yet"}
}
