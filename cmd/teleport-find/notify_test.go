package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teleport-update/find/store/postgres/pgtest"
)

const (
	hookKey    = "a key of at least 24 bytes, of a test"
	hookGroups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec: {agents: {mode: enabled, schedules: {regular: [{name: dev, start_hour: 1}, {name: qa, start_hour: 1}, {name: prod, start_hour: 1}]}}}
`
)

// whsec is a key in the form of a secret.
func whsec(key string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(key)) }

// pager is a receiver of events.
type pager struct {
	t      *testing.T
	server *httptest.Server

	posted chan struct{} // gets one of each event
	mu     sync.Mutex
	events []event
	once   bool            // drop repeats by their ids, as receivers do
	answer func(n int) int // of each request; nil: 200
}

type event struct {
	at       time.Time
	id, Type string
	Data     struct {
		Groups []struct{ Name string }
	}
}

func newPager(t *testing.T) *pager {
	p := &pager{t: t, posted: make(chan struct{}, 1000)}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e := event{at: time.Now(), id: r.Header.Get("webhook-id")}
		mac := hmac.New(sha256.New, []byte(hookKey))
		fmt.Fprintf(mac, "%s.%s.%s", e.id, r.Header.Get("webhook-timestamp"), body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
			t.Errorf("the signature is %s; want %s", r.Header.Get("webhook-signature"), want)
		}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		if !p.once || !slices.ContainsFunc(p.events, func(other event) bool { return other.id == e.id }) {
			p.events = append(p.events, e)
		}
		n, answer := len(p.events), p.answer
		p.mu.Unlock()
		p.posted <- struct{}{}
		if answer != nil {
			w.WriteHeader(answer(n))
			io.WriteString(w, "I am a teapot")
		}
	}))
	t.Cleanup(p.server.Close)
	return p
}

// hook is a resource that posts to it.
func (p *pager) hook(secret string) string {
	return fmt.Sprintf("kind: autoupdate_notify\nmetadata: {name: pager}\nspec: {url: %q, secret_file: %q, kinds: [halted, stalled, done, retried]}\n", p.server.URL+"/x", secret)
}

func (p *pager) answers(f func(n int) int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// got are the events, each as "id type group".
func (p *pager) got() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		var groups []string
		for _, g := range e.Data.Groups {
			groups = append(groups, g.Name)
		}
		list = append(list, strings.TrimSpace(e.id+" "+e.Type+" "+strings.Join(groups, "+")))
	}
	return list
}

// await waits until there were so many posts. It returns before the last one is answered.
func (p *pager) await(n int) []string {
	p.t.Helper()
	for {
		got := p.got()
		if len(got) >= n {
			return got
		}
		select {
		case <-p.posted:
		case <-time.After(2 * time.Minute):
			p.t.Fatalf("there were %d posts, of %d: %q", len(got), n, got)
		}
	}
}

// awaitRecord waits until the server has recorded a delivery. What was not recorded is repeated at the next start of a
// server.
func (p *pager) awaitRecord(server *kept) {
	p.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		_, text := scrape(p.t, metricsOf(p.t, server.server)+"/metrics")
		if delivered.MatchString(text) {
			return
		}
	}
	p.t.Fatalf("no delivery was recorded: %q", p.got())
}

var delivered = regexp.MustCompile(`teleport_find_webhook_deliveries_total\{result="delivered"\} [1-9]`)

// rollThrough has two servers of one store go through a rollout, with orders to either, a
// stop and a kill in between: each event is told. A server that starts may repeat, under its id, an event that the other one is posting.
func rollThrough(t *testing.T, p *pager, one, other *kept, restart func(*kept)) {
	t.Helper()
	p.once = true
	secret := filepath.Join(one.dir, "hook.secret")
	write(t, secret, whsec(hookKey)+"\n")
	resources := filepath.Join(one.dir, "all.yaml")
	write(t, resources, hookGroups)
	one.must("apply", "-f", resources)
	one.must("set-version", "15.2.0", "--start", "15.1.0")
	write(t, resources, p.hook(secret))
	if out := other.must("apply", "-f", resources); out != "autoupdate_notify/pager created\n" {
		t.Errorf("it says %q", out)
	}
	if out := one.must("notify", "test", "pager"); out != "webhook pager has taken a test event\n" {
		t.Errorf("it says %q", out)
	}
	if out, code := one.run("notify", "test", "none"); code != 1 || !strings.Contains(out, "there is no autoupdate_notify/none in the store") {
		t.Errorf("of no webhook it says %q, %d", out, code)
	}
	one.must("rollout", "done", "dev")
	p.await(2)
	restart(one) // by a signal, while it may be posting
	other.must("rollout", "done", "qa")
	p.await(3)
	p.awaitRecord(other)
	one.must("rollout", "back")
	p.await(4)
	p.awaitRecord(one)
	if err := other.server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-other.server.drain
	other.server.cmd.Wait()
	one.must("rollout", "done", "prod")
	p.await(5)
	restart(other)
	other.must("rollout", "reset")
	other.must("rollout", "done", "dev")
	all := p.await(6)
	var types, ids []string
	for _, line := range all {
		id, what, _ := strings.Cut(line, " ")
		ids, types = append(ids, id), append(types, what)
	}
	want := []string{"test", "rollout.done dev", "rollout.done qa", "rollout.halted prod", "rollout.done prod", "rollout.done dev"}
	slices.Sort(ids)
	if !slices.Equal(types, want) || len(slices.Compact(ids)) != len(want) {
		t.Errorf("told is %q; want %q", all, want)
	}
	if out := one.must("get", "autoupdate_notify/pager"); !strings.Contains(out, "kinds: [halted, stalled, done, retried]") {
		t.Errorf("get prints\n%s", out)
	}
	if out := one.must("history"); strings.Contains(out, "notify_event") || !strings.Contains(out, "apply: webhook pager for halted+stalled+done+retried") {
		t.Errorf("the history is\n%s", out)
	}
	if out := other.must("notify", "remove", "pager"); out != "webhook pager was removed\n" {
		t.Errorf("it says %q", out)
	}
	if out, code := one.run("get", "autoupdate_notify"); code != 1 || !strings.Contains(out, "there is no autoupdate_notify") {
		t.Errorf("after that, get prints %q, %d", out, code)
	}
}

func TestTwoServersOfAFileTellTheirWebhooks(t *testing.T) {
	p := newPager(t)
	one := newKept(t)
	other := &kept{t: t, dir: t.TempDir()}
	start := func(k *kept) {
		k.server = serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", one.store(), "--admin-socket", filepath.Join(k.dir, "admin.sock"),
			"--metrics-listen", "127.0.0.1:0")
	}
	start(other)
	rollThrough(t, p, one, other, func(k *kept) {
		if k.server.cmd.ProcessState == nil {
			k.stop()
		}
		start(k)
	})
}

func TestTwoServersOfADatabaseTellTheirWebhooks(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	database.SQL("postgres", "ALTER USER postgres PASSWORD 'open sesame'")
	p := newPager(t)
	one, other := onDatabase(t, address), onDatabase(t, address)
	rollThrough(t, p, one, other, func(k *kept) {
		if k.server.cmd.ProcessState == nil {
			k.stop()
		}
		k.server = serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", address, "--store-password-file", filepath.Join(k.dir, "password"),
			"--admin-socket", filepath.Join(k.dir, "admin.sock"), "--metrics-listen", "127.0.0.1:0")
	})
}

// A server that is killed while it posts does not know whether the receiver has the event, and posts it again at its
// next start, under the same id.
func TestAfterAKillTheEventIsPostedAgain(t *testing.T) {
	p := newPager(t)
	k := newKept(t)
	secret, resources := filepath.Join(k.dir, "hook.secret"), filepath.Join(k.dir, "all.yaml")
	write(t, secret, whsec(hookKey)+"\n")
	write(t, resources, hookGroups+"---\n"+p.hook(secret))
	k.must("apply", "-f", resources)
	k.must("set-version", "15.2.0", "--start", "15.1.0")
	p.answers(func(n int) int {
		if n == 1 {
			k.server.cmd.Process.Signal(syscall.SIGKILL)
		}
		return http.StatusOK
	})
	k.run("rollout", "done", "dev") // its answer may be lost
	p.await(1)
	<-k.server.drain
	k.server.cmd.Wait()
	k.start()
	if all := p.await(2); all[0] != all[1] || !strings.HasSuffix(all[0], "rollout.done dev") {
		t.Errorf("told is %q; want a repeat", all)
	}
	p.awaitRecord(k)
	k.stop()
	k.start()
	k.must("rollout", "done", "qa")
	if all := p.await(3); len(all) != 3 || !strings.HasSuffix(all[2], "rollout.done qa") {
		t.Errorf("told is %q; want each other event once", all)
	}
}

// A webhook that fails is in status and in the metrics, with its reason.
func TestAWebhookThatFailsIsSeen(t *testing.T) {
	p := newPager(t)
	dir := t.TempDir()
	k := &kept{t: t, dir: dir, server: serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"),
		"--admin-socket", filepath.Join(dir, "admin.sock"), "--metrics-listen", "127.0.0.1:0")}
	secret, resources := filepath.Join(dir, "hook.secret"), filepath.Join(dir, "all.yaml")
	write(t, resources, hookGroups+"---\n"+p.hook(secret))
	k.must("apply", "-f", resources)
	k.must("set-version", "15.2.0", "--start", "15.1.0")
	if out, code := k.run("notify", "test", "pager"); code != 1 || !strings.Contains(out, "the test event was not delivered: read the secret: ") || strings.Contains(out, "nothing was written") {
		t.Errorf("without the secret it says %q, %d", out, code)
	}
	write(t, secret, whsec(hookKey)+"\n")
	p.answers(func(int) int { return http.StatusTeapot })
	if out, code := k.run("notify", "test", "pager"); code != 1 || !strings.Contains(out, "the test event was not delivered: the receiver answers 418: I am a teapot") {
		t.Errorf("of a receiver that fails it says %q, %d", out, code)
	}
	k.must("rollout", "done", "dev")
	p.await(2)
	text := ""
	for range 200 {
		if text = k.must("status"); strings.Contains(text, "webhook pager") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !strings.Contains(text, "webhook pager: no event can be delivered since") || !strings.Contains(text, "the receiver answers 418: I am a teapot; ") {
		t.Errorf("status is\n%s", text)
	}
	_, metrics := scrape(t, metricsOf(t, k.server)+"/metrics")
	for _, want := range []string{"teleport_find_webhooks_failing 1", `teleport_find_webhook_deliveries_total{result="failed"} 1`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("there is no %s in the metrics", want)
		}
	}
}
