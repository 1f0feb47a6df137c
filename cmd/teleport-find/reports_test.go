package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/server/adminapi"
)

// reporter is some hosts of a test.
type reporter struct {
	url, token string
	mu         sync.Mutex
	joined     map[string]bool   // acknowledged
	failed     map[string]string // the error of the last verdict that was acknowledged
}

func (r *reporter) post(path, secret string, body any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(string(data)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// run has hosts join and report failures until the server is gone.
func (r *reporter) run(round, worker int) {
	for i := 0; ; i++ {
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", round+1, worker, i)
		secret := "the secret of the host " + id
		sum := sha256.Sum256([]byte(secret))
		status, err := r.post(find.JoinPath, r.token, find.Join{HostID: id, SecretHash: hex.EncodeToString(sum[:])})
		if err != nil || status != http.StatusOK {
			return
		}
		r.mu.Lock()
		r.joined[id] = true
		r.mu.Unlock()
		for try := uint32(1); try <= 3; try++ {
			text := fmt.Sprint("attempt ", try)
			status, err := r.post(find.HeartbeatPath, secret, find.Heartbeat{
				HostID: id, Sequence: try, Version: "15.1.0",
				Outcome: &find.Outcome{Target: "15.2.0", State: "failed", Error: text, Time: time.Unix(1_700_000_000+int64(try), 0)},
			})
			if err != nil || status != http.StatusOK {
				return
			}
			r.mu.Lock()
			r.failed[id] = text
			r.mu.Unlock()
		}
	}
}

// What the server has acknowledged is there after kill -9, at whatever write it comes.
func TestNoAcknowledgedReportIsLost(t *testing.T) {
	dir := t.TempDir()
	a := &adminRun{t: t, dir: dir}
	start := func() *process {
		return serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", a.socket())
	}
	s := start()
	code, out := a.run("", "token", "add", "web", "--reason", "a test", "-o", "json")
	var made adminapi.Token
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.Token == "" {
		t.Fatalf("%d %s", code, out)
	}
	r := &reporter{token: made.Token, joined: make(map[string]bool), failed: make(map[string]string)}
	for round := range 6 {
		r.url = s.url
		var workers sync.WaitGroup
		for worker := range 4 {
			workers.Go(func() { r.run(round, worker) })
		}
		enough := 10 + rand.IntN(100)
		s.until("hosts have joined", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.joined) >= (round+1)*enough/2
		})
		s.stop(syscall.SIGKILL)
		workers.Wait()
		s = start()
		code, out := a.run("", "hosts", "-o", "json", "--limit", "100000")
		var known adminapi.Hosts
		if err := json.Unmarshal([]byte(out), &known); code != 0 || err != nil {
			t.Fatalf("%d %s", code, out)
		}
		found := make(map[string]adminapi.Host)
		for _, h := range known.Hosts {
			found[h.ID] = h
		}
		for id := range r.joined {
			if _, ok := found[id]; !ok {
				t.Errorf("host %s had joined, and is not known", id)
			}
		}
		for id, text := range r.failed {
			// A later one may have been kept without having been acknowledged.
			if h := found[id]; h.Failed == nil || h.Failed.Error < text {
				t.Errorf("host %s had said %q: %+v", id, text, h.Failed)
			}
		}
	}
	if len(r.failed) < 20 {
		t.Errorf("only %d verdicts: this test shows nothing", len(r.failed))
	}
	r.url = s.url
	// What people see of it, and what they do.
	one := ""
	for id := range r.failed {
		one = id
	}
	for _, step := range []struct {
		args string
		code int
		says string
	}{
		{"token", 0, "all groups"},
		{"token add web", 1, "the token web exists already"},
		{"token add Web", 1, "is not one of a-z"},
		{"token add short --expires soon", 1, "a duration such as 24h"},
		{"token add dev --group dev --expires 24h", 0, "teleport-find-"},
		{"token", 0, "dev"},
		{"token revoke web --reason over", 0, "token web was revoked"},
		{"token revoke web", 1, "there is no join token"},
		{"token revoke-host " + one + " --reason stolen", 0, "does not report any more"},
		{"token revoke-host " + one, 1, "revoked before"},
		{"token revoke-host web-1", 1, "no host"},
		{"token revoke-host 123456789012-i-0123456789abcdef0", 1, `no host "d70bdd93-c0bc-e162-ed32-dbafe7143f50"`},
		{"hosts 123456789012-i-0123456789abcdef0", 1, "no host d70bdd93-c0bc-e162-ed32-dbafe7143f50 has joined"},
		{"history", 0, "stolen"},
		{"history -o json", 0, `"what":"token add web","why":"a test","key":"agents/token/web","from_revision":0`},
	} {
		if code, out := a.run("", strings.Fields(step.args)...); code != step.code || !strings.Contains(out, step.says) {
			t.Errorf("%s: exit code %d\n%s\nwant %d and %s", step.args, code, out, step.code, step.says)
		}
	}
	if status, err := r.post(find.JoinPath, made.Token, find.Join{HostID: "ffffffff-0000-4000-8000-000000000000", SecretHash: strings.Repeat("a", 64)}); err != nil || status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d, %v", status, err)
	}
	if log := s.log.String(); strings.Contains(log, made.Token) || strings.Contains(log, "the secret of the host") {
		t.Error("the log tells a secret")
	}
}
