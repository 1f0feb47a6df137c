//go:build hosts

package clusterfaults

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"teleport-update/find"
	"teleport-update/find/server/adminapi"
)

// member is a simulated host. Its fields are under the world's lock.
type member struct {
	id, secret, group string
	version           string
	sequence          uint32
	outcome           *find.Outcome // that no server has taken yet
	toldTo            string        // the version that it was last told to update to
	failed            string        // the version that failed
	acknowledged      bool          // that failure
}

// How long a host waits for a server to take its report before it tries the next one: while there is a fault, and without one.
const (
	patienceInFaults = 600 * time.Millisecond
	patienceInPeace  = 10 * time.Second
)

func (w *world) join() {
	w.t.Helper()
	for i := range 12 {
		group := "dev"
		if i >= devHosts {
			group = "prod"
		}
		w.hosts = append(w.hosts, &member{
			id: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i*0x11111111+7), group: group, version: "1.0.0",
			secret: fmt.Sprintf("the secret of host %d that nobody knows", i),
		})
	}
	var made adminapi.Token
	if err := w.servers[0].admin(http.MethodPost, "/v1/tokens", []byte(`{"name":"all"}`), &made); err != nil {
		w.t.Fatal(err)
	}
	for _, h := range w.hosts {
		sum := sha256.Sum256([]byte(h.secret))
		join := find.Join{HostID: h.id, SecretHash: hex.EncodeToString(sum[:]), Group: h.group}
		if err := w.post(w.servers[0].running(), find.JoinPath, made.Token, join, time.Minute); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) post(p *process, path, secret string, body any, patience time.Duration) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, p.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	return answer(&http.Client{Timeout: patience}, req, nil)
}

// polls has all hosts look at once. Each goes to the servers in an order by lot, as a balancer of load has it, until one
// answers and one takes its report.
func (w *world) polls(r *rand.Rand, now []active) {
	patience := patienceInPeace
	if len(now) > 0 {
		patience = patienceInFaults
	}
	var all sync.WaitGroup
	for _, h := range w.hosts {
		order := r.Perm(servers)
		all.Go(func() { w.poll(h, order, patience) })
	}
	all.Wait()
}

func (w *world) poll(h *member, order []int, patience time.Duration) {
	answered := false
	for _, i := range order {
		s := w.servers[i]
		p := s.running()
		if p == nil || p.isPaused() {
			continue
		}
		if !answered {
			asked := time.Now()
			a, err := s.find(p, h)
			if err != nil {
				continue
			}
			w.judge(p, h, a, asked)
			w.obey(h, a)
			answered = true
		}
		if w.report(p, h, patience) {
			return
		}
	}
	w.count("reports that no server took")
}

// obey has a host do what it is told.
func (w *world) obey(h *member, a findAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.Update || a.Version == h.version || a.Version == h.failed {
		return
	}
	h.toldTo = a.Version
	h.outcome = &find.Outcome{Target: a.Version, State: "succeeded", Time: w.now}
	if w.bad && h.group == "prod" {
		h.outcome.State, h.outcome.Error = "failed", "it crashes"
		h.failed, h.acknowledged = a.Version, false
		return
	}
	h.version = a.Version
}

func (w *world) report(p *process, h *member, patience time.Duration) bool {
	w.mu.Lock()
	h.sequence++
	b := find.Heartbeat{HostID: h.id, Group: h.group, Version: h.version, Told: h.toldTo, Outcome: h.outcome, Sequence: h.sequence}
	w.mu.Unlock()
	err := w.post(p, find.HeartbeatPath, h.secret, b, patience)
	if refusal, ok := errors.AsType[*statusError](err); ok && refusal.code != http.StatusServiceUnavailable {
		var said find.HeartbeatError
		json.Unmarshal([]byte(refusal.text), &said)
		w.mu.Lock()
		h.sequence = max(h.sequence, said.Sequence)
		w.mu.Unlock()
	}
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.outcome != nil && h.outcome.State == "failed" {
		h.acknowledged = true
	}
	h.outcome = nil
	w.ops["reports"]++
	return true
}
