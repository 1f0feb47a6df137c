// Package report reports to a find server how this host does, if the host has a join token for that.
//
// The host makes a secret of its own, and joins with the token and a digest of the secret; from then on the secret is sent with each
// report, to the server that the token was given for, over TLS, and to nobody else. It lies in a file for root alone, and belongs to one
// host_uuid on one machine: if either changes, as on a machine that was copied, the file is removed, and the host does not report until it
// gets another token.
//
// A report is for the benefit of others. Sending one is bounded in time, and tried again only if its sequence was taken; the next report
// has all of its news.
package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/internal/webclient"
)

// Limit bounds the time that a report takes, a join before it included.
const Limit = 5 * time.Second

// MachineID is the usual path of the machine-id.
const MachineID = "/etc/machine-id"

// ErrNone says that the host does not report, because nobody gave it a token.
var ErrNone = errors.New("no join token for reports was given")

// RemovedError says that the secret belonged to another host, or another machine, and was removed.
type RemovedError struct{ why string }

func (e *RemovedError) Error() string {
	return e.why + ": the secret for reports was removed, and this host does not report until \"teleport-update enable " +
		"--report-token-file\" gives it a token"
}

// Reporter sends the reports of a host. All fields are needed.
type Reporter struct {
	// File is the path of the secret, beside updates.yaml.
	File string
	// MachineID is usually the constant MachineID.
	MachineID string
	// HTTP returns a client from webclient.New.
	HTTP func() (*http.Client, error)
	Now  func() time.Time
}

// Enabled reports whether the host has a credential for reports.
func (r *Reporter) Enabled() bool {
	_, err := r.load()
	return !errors.Is(err, ErrNone)
}

// Send sends a report to a find server, whose address is in a form of find.ParseProxy, and joins first if the host has not joined yet. The
// HostID may be missing: then there is nothing to report yet. UpdaterID and Sequence are filled in.
func (r *Reporter) Send(ctx context.Context, proxy string, b find.Heartbeat) error {
	c, err := r.load()
	if err != nil {
		return err
	}
	base, err := find.ParseProxy(proxy)
	if err != nil {
		return err
	}
	switch {
	case c.Machine != r.machine():
		return r.remove("the machine-id has changed since the token was given")
	case b.HostID == "":
		return nil
	case c.HostID != "" && !strings.EqualFold(c.HostID, b.HostID):
		return r.remove("the host_uuid has changed since this host joined")
	case c.Proxy != base.String():
		return c.strange(base)
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	client, err := r.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	if c.Token != "" {
		if err := r.join(ctx, client, &c, b); err != nil {
			return err
		}
	}
	text, err := c.text(b)
	if err != nil {
		return err
	}
	return r.post(ctx, client, c, text)
}

func (c credential) strange(asked *url.URL) error {
	return fmt.Errorf("the token for reports was given for %s, and find is asked at %s: nothing is sent there", c.Proxy, asked)
}

// text returns a report without its sequence.
func (c credential) text(b find.Heartbeat) (string, error) {
	b.UpdaterID, b.Sequence = c.updaterID(b.HostID), 0
	data, err := json.Marshal(b)
	return string(data), err
}

// noSequence is in a text exactly once: within a string, JSON has no bare quotes.
const noSequence = `"sequence":0`

// post sends a text with a sequence. Seconds grow from report to report without a record. If they do not, because of a second report in one
// second, a clock that was set back or a copy of this host, the server answers with its own sequence.
func (r *Reporter) post(ctx context.Context, client *http.Client, c credential, text string) error {
	send := func(sequence uint32) (find.HeartbeatError, error) {
		body := strings.Replace(text, noSequence, noSequence[:len(noSequence)-1]+strconv.FormatUint(uint64(sequence), 10), 1)
		return post(ctx, client, c.Proxy+find.HeartbeatPath, c.Secret, []byte(body))
	}
	sequence := uint32(max(r.Now().Unix()-sequenceEpoch, 1))
	said, err := send(sequence)
	for tries := 1; tries < sequenceTries && err != nil && said.Sequence >= sequence && said.Sequence < 1<<32-1; tries++ {
		sequence = said.Sequence + 1
		said, err = send(sequence)
	}
	return err
}

// sequenceTries is how often a report is sent if its sequence is the reason for a refusal: a copy of this host with the same secret, which
// the server must detect, may take each number first.
const sequenceTries = 4

// sequenceEpoch is the beginning of 2020.
const sequenceEpoch = 1577836800

func (r *Reporter) remove(why string) error {
	if err := r.Forget(); err != nil {
		return fmt.Errorf("%s, and the secret for reports cannot be removed: %w", why, err)
	}
	return &RemovedError{why}
}

func (r *Reporter) join(ctx context.Context, client *http.Client, c *credential, b find.Heartbeat) error {
	sum := sha256.Sum256([]byte(c.Secret))
	j := find.Join{HostID: b.HostID, SecretHash: hex.EncodeToString(sum[:]), Group: b.Group, Hostname: b.Hostname}
	body, err := json.Marshal(j)
	if err == nil {
		_, err = post(ctx, client, c.Proxy+find.JoinPath, c.Token, body)
	}
	if err != nil {
		return err
	}
	c.HostID, c.Token = b.HostID, ""
	return r.save(*c)
}

// client returns a client that follows no redirect: its requests are for one server.
func (r *Reporter) client() (*http.Client, error) {
	client, err := r.HTTP()
	if err != nil {
		return nil, err
	}
	one := *client
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &one, nil
}

// post sends a body with a secret. An answer other than 200 is an error.
func post(ctx context.Context, client *http.Client, where, secret string, body []byte) (said find.HeartbeatError, err error) {
	defer func() {
		if err != nil {
			err = webclient.RedactError(fmt.Errorf("report to %s: %w", where, err))
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return said, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok && e.URL == where {
			err = e.Err // without the address, which is there already
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", Limit)
		}
		return said, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, find.MaxHeartbeat))
	switch {
	case resp.StatusCode == http.StatusOK:
		return said, nil
	case resp.StatusCode == http.StatusNotFound:
		return said, errors.New("the server takes no reports (is it a teleport-find with a store?)")
	case err == nil && json.Unmarshal(answer, &said) == nil && said.Error != "":
		return said, fmt.Errorf("the server says: %s", find.Excerpt([]byte(said.Error), 400))
	}
	return find.HeartbeatError{}, fmt.Errorf("the answer is %s", find.Excerpt([]byte(resp.Status), 60))
}
