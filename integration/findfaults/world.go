//go:build hosts

// Package findfaults ends the find server at each of its calls that change a file, by a kill and by a power cut,
// and looks at what it knows after that: no acknowledged change is lost, no group has
// advanced twice, and no host was told a version that no rollout named.
//
// The server is the real program, with the clock of package fleet. Its hosts are a few requests.
package findfaults

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/integration/fleet"
	"teleport-update/integration/trace"
)

const groups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    schedules:
      regular:
      - {name: dev, days: ["*"], start_hour: 13, canary_count: 1}
      - {name: prod, days: ["*"], start_hour: 14, max_in_flight: 1}
`

const (
	before = "1.0.0"
	target = "1.1.0"
)

// member is a host of the world, and what the server has acknowledged of it.
type member struct {
	id, secret, group string
	version           string // that it runs
	sequence          uint32
	joined            bool
	acknowledged      string // version in the last report that was taken
}

// world is a server's folder, and all that was acknowledged by it.
type world struct {
	dir     string // of the store
	program string
	client  *http.Client // of the admin socket
	url     string       // of the server that runs; empty: none does
	now     time.Time
	token   string
	hosts   []*member
	applied bool // the config
	set     bool // the version
	// highest is how far each group was seen to be.
	highest map[string]int
	told    map[string]bool
}

func newWorld(ctx context.Context, dir string) (*world, error) {
	program, err := fleet.BuildServer(ctx)
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, program: program, now: fleet.Begin, highest: make(map[string]int), told: make(map[string]bool)}
	socket := w.socket()
	w.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for i, group := range []string{"dev", "dev", "prod", "prod"} {
		w.hosts = append(w.hosts, &member{id: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1), secret: fmt.Sprintf("a secret of the host %d that nobody else knows", i), group: group, version: before})
	}
	return w, w.setClock(w.now)
}

func (w *world) socket() string { return w.file("admin.sock") }

// file is beside the disk: what is there survives a power cut.
func (w *world) file(name string) string { return filepath.Join(filepath.Dir(w.dir), name) }

func (w *world) setClock(now time.Time) error {
	w.now = now
	name := w.file("clock")
	if err := os.WriteFile(name+".new", []byte(now.Format(time.RFC3339Nano)), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// loaded waits until the server has loaded its hosts, before which it knows none.
func (w *world) loaded(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := w.admin(ctx, http.MethodGet, "/v1/hosts", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "is loading the hosts") || time.Now().After(deadline) {
			return err
		}
	}
}

// serve runs the server until decide ends it, or until its story does, which runs meanwhile. complete is whether the story
// ran to its end.
func (w *world) serve(ctx context.Context, decide func(trace.Call) trace.Action, story func(context.Context) error) (result trace.Result, complete bool, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return result, false, err
	}
	defer out.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer in.Close()
		var err error
		result, err = trace.Run(ctx, trace.Command{
			Argv: []string{w.program, "serve", "--listen", "127.0.0.1:0", "--store", filepath.Join(w.dir, "store", "store.db"), "--admin-socket", w.socket()},
			Env:  append(os.Environ(), "FLEET_CLOCK="+w.file("clock")), Stdout: in,
		}, decide)
		ended <- err
	}()
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- line
		io.Copy(io.Discard, out)
	}()
	var storyErr error
	select {
	case line := <-lines:
		var ok bool
		if w.url, ok = strings.CutPrefix(strings.TrimSpace(line), "listening on "); ok {
			if storyErr = w.loaded(ctx); storyErr == nil {
				storyErr = story(ctx)
			}
			complete = storyErr == nil
		}
	case err = <-ended:
		return result, false, err
	}
	w.url = ""
	if complete {
		stop() // the server would run on
	}
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		stop()
		<-ended
		return result, false, fmt.Errorf("the server runs on, and its story ended with %w\n%s", storyErr, result.Stderr)
	}
	if complete && errors.Is(err, context.Canceled) {
		err = nil
	}
	if !complete && err == nil && !result.Killed {
		err = fmt.Errorf("the server ended by itself with %d, and its story with %w\n%s", result.ExitCode, storyErr, result.Stderr)
	}
	return result, complete, err
}

// story is a rollout from the first command to the last host. It goes on where it stopped: what was
// acknowledged is not done again.
func (w *world) story(ctx context.Context) error {
	if err := w.prepare(ctx); err != nil {
		return err
	}
	for range 60 {
		done, err := w.look(ctx)
		if done || err != nil {
			return err
		}
		for _, h := range w.hosts {
			if err := w.poll(ctx, h); err != nil {
				return err
			}
		}
		next := w.now.Add(fleet.Poll)
		if next.Hour() > 15 {
			// A server that had to wait for reports has let the hour go by.
			next = next.Truncate(24 * time.Hour).Add(36 * time.Hour)
		}
		if err := w.setClock(next); err != nil {
			return err
		}
	}
	return fmt.Errorf("at %v the rollout is not done: %v", w.now, w.highest)
}

// prepare applies groups, joins the hosts and sets the version.
func (w *world) prepare(ctx context.Context) error {
	if !w.applied {
		if err := w.admin(ctx, http.MethodPut, "/v1/resources", []byte(groups), nil); err != nil {
			return err
		}
		w.applied = true
	}
	if err := w.join(ctx); err != nil {
		return err
	}
	if !w.set {
		version := fmt.Sprintf("kind: autoupdate_version\nmetadata: {name: autoupdate-version}\n"+
			"spec: {agents: {start_version: %s, target_version: %s, schedule: regular}}\n", before, target)
		if err := w.admin(ctx, http.MethodPut, "/v1/resources", []byte(version), nil); err != nil {
			return err
		}
		w.set = true
	}
	return nil
}

func (w *world) join(ctx context.Context) error {
	if w.token == "" {
		var made adminapi.Token
		// One that was made and not acknowledged is of no use.
		request := fmt.Appendf(nil, `{"name":"t%d"}`, time.Now().UnixNano())
		if err := w.admin(ctx, http.MethodPost, "/v1/tokens", request, &made); err != nil {
			return err
		}
		w.token = made.Token
	}
	for _, h := range w.hosts {
		if h.joined {
			continue
		}
		sum := sha256.Sum256([]byte(h.secret))
		join := find.Join{HostID: h.id, SecretHash: hex.EncodeToString(sum[:]), Group: h.group}
		if err := w.post(ctx, find.JoinPath, w.token, join); err != nil {
			return err
		}
		h.joined = true
	}
	return nil
}

// poll is what a host does in a tick.
func (w *world) poll(ctx context.Context, h *member) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/webapi/find?group="+h.group+"&host="+h.id, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Version string `json:"agent_version"`
		Update  bool   `json:"agent_autoupdate"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	w.told[answer.Version] = true
	b := find.Heartbeat{HostID: h.id, Group: h.group, Version: h.version}
	if answer.Update && answer.Version != h.version {
		h.version = answer.Version
		b.Version, b.Told = h.version, h.version
		b.Outcome = &find.Outcome{Target: h.version, State: "succeeded", Time: w.now}
	}
	h.sequence++
	b.Sequence = h.sequence
	if err := w.post(ctx, find.HeartbeatPath, h.secret, b); err != nil {
		return err
	}
	h.acknowledged = b.Version
	return nil
}

// look waits until the engine has looked at this time, and notes how far the groups are.
func (w *world) look(ctx context.Context) (done bool, err error) {
	var o adminapi.Overview
	for range 3 {
		if err := w.setClock(w.now.Add(time.Second)); err != nil {
			return false, err
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if err := w.admin(ctx, http.MethodGet, "/v1/overview", nil, &o); err != nil {
				return false, err
			}
			if !o.Server.LastTick.Before(w.now) {
				break
			}
			if time.Now().After(deadline) {
				return false, fmt.Errorf("the engine does not look: %+v", o.Server)
			}
		}
	}
	return o.Word == "done" || o.Word == "over", w.checkForward(o)
}

var ranks = map[rollout.State]int{rollout.Unstarted: 0, rollout.Canarying: 1, rollout.Active: 2, rollout.Done: 3}

// checkForward returns an error where a group is less far than it was.
func (w *world) checkForward(o adminapi.Overview) error {
	for _, g := range o.Groups {
		rank := ranks[g.State]
		if rank < w.highest[g.Name] {
			return fmt.Errorf("%s is %s, and was further", g.Name, g.State)
		}
		w.highest[g.Name] = rank
	}
	return nil
}

func (w *world) post(ctx context.Context, path, secret string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	return answered(http.DefaultClient.Do(req))(nil)
}

func (w *world) admin(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answered(w.client.Do(req))(into)
}

// answered reads an answer that has to be 200.
func answered(resp *http.Response, err error) func(into any) error {
	return func(into any) error {
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, data)
		}
		if err == nil && into != nil {
			err = json.Unmarshal(data, into)
		}
		return err
	}
}
