package notify

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// The example of the specification of Standard Webhooks.
func TestEventsAreSignedAsStandardWebhooksHasIt(t *testing.T) {
	key, err := parseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, [][]byte{key, []byte("another key of 24 bytes.")}, "p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	signatures := strings.Fields(h.Get("webhook-signature"))
	if len(signatures) != 2 || signatures[0] != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || signatures[0] == signatures[1] {
		t.Errorf("the signatures are %q", signatures)
	}
	if h.Get("webhook-id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" || h.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("the headers are %v", h)
	}
}

func TestSecretsThatAreNone(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]string{
		"": "holds 0 secrets", "short\n": "has 5 bytes", "whsec_***": "no base64", "whsec_c2hvcnQ=": "has 5 bytes",
		strings.Repeat(strings.Repeat("k", 30)+"\n", 5): "holds 5 secrets", strings.Repeat("k", 65): "has 65 bytes",
	} {
		_, err := readKeys(w.write("s", text))
		if err == nil || !strings.Contains(err.Error(), want) || len(text) > 4 && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%q: %v; want %s, and nothing of the secret", text, err, want)
		}
	}
	if keys, err := readKeys(w.write("s", "\n"+secret+"\n  a passphrase of 24 bytes\n")); err != nil || len(keys) != 2 || string(keys[1]) != "a passphrase of 24 bytes" {
		t.Errorf("%q, %v", keys, err)
	}
}

func TestAnEventIsPostedOnceToThoseWhoWantIt(t *testing.T) {
	w := newWorld(t)
	w.happens(rollout.NoticeHalted, "before")
	w.hook("pager", "/pager", rollout.NoticeHalted)
	w.hook("chat", "/chat", rollout.NoticeHalted, rollout.NoticeDone)
	a := w.notifier("a")
	w.look(a)
	w.happens(rollout.NoticeHalted, "dev")
	w.happens(rollout.NoticeDone, "qa")
	for range 3 {
		w.look(a)
		w.store.pass(time.Hour)
	}
	var got []string
	for _, r := range w.received() {
		got = append(got, r.path+" "+r.body.Type+" "+r.body.Data.Groups[0].Name)
	}
	slices.Sort(got)
	if want := []string{"/chat rollout.done qa", "/chat rollout.halted dev", "/pager rollout.halted dev"}; !slices.Equal(got, want) {
		t.Errorf("posted are %q; want %q", got, want)
	}
	first := w.received()[0]
	if first.header.Get("Content-Type") != "application/json" || first.header.Get("User-Agent") != "teleport-find/1.2.3" {
		t.Errorf("the headers are %v", first.header)
	}
	if want := "rollout of 17.1.0 halted: group dev (hosts_failed): 2 of 10 hosts failed"; first.body.Text != want {
		t.Errorf("people read %q; want %q", first.body.Text, want)
	}
	// A kind that is wanted later is told of what happens later.
	w.hook("pager", "/pager", rollout.NoticeHalted, rollout.NoticeDone)
	w.look(a)
	w.happens(rollout.NoticeDone, "prod")
	w.look(a)
	if all := w.received(); len(all) != 5 {
		t.Errorf("%d posts: %q", len(all), ids(all))
	}
	if w.results[Delivered] != 5 || len(w.results) != 1 {
		t.Errorf("the results are %v", w.results)
	}
	if trouble := a.Trouble(); len(trouble) > 0 {
		t.Errorf("trouble is %q", trouble)
	}
}

func TestAReceiverThatFailsIsTriedAgainOverRestarts(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n < 4 {
			http.Error(rw, "MARKED", http.StatusInternalServerError)
		}
	})
	w.look(w.notifier("a"))
	w.happens(rollout.NoticeHalted, "dev")
	for attempt, wait := range []time.Duration{0, firstWait, 2 * firstWait, 4 * firstWait} {
		if wait > 0 {
			w.store.pass(wait/2 - time.Second)
			w.look(w.notifier("restarted"))
			if n := len(w.received()); n != attempt {
				t.Fatalf("attempt %d is made too early", n)
			}
			w.store.pass(wait/2 + time.Second)
		}
		n := w.notifier("restarted")
		w.look(n)
		if got := len(w.received()); got != attempt+1 {
			t.Fatalf("%d attempts; want %d", got, attempt+1)
		}
		if trouble := strings.Join(n.Trouble(), "\n"); attempt < 3 && (!strings.Contains(trouble, "webhook pager: no event was delivered since") || !strings.Contains(trouble, "answers 500")) {
			t.Errorf("trouble is %q", trouble)
		} else if attempt == 3 && trouble != "" {
			t.Errorf("trouble is %q after all", trouble)
		}
	}
	all := w.received()
	for _, r := range all {
		if r.id != all[0].id || string(r.raw) != string(all[0].raw) {
			t.Errorf("the repeat %s has another id or body than %s", r.id, all[0].id)
		}
	}
	if all[0].at == all[3].at {
		t.Error("the time of the attempt is always the same")
	}
	if log := w.log.String(); strings.Count(log, "is tried again") != 1 || strings.Count(log, "can be told again") != 1 || strings.Contains(log, "MARKED") {
		t.Errorf("the log is\n%s", log)
	}
	if w.results[Failed] != 3 || w.results[Delivered] != 1 {
		t.Errorf("the results are %v", w.results)
	}
}

func TestAnEventIsGivenUpAfterDays(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	w.answers(func(rw http.ResponseWriter, _ *http.Request, _ int) { rw.WriteHeader(http.StatusServiceUnavailable) })
	n := w.notifier("a")
	w.look(n)
	w.happens(rollout.NoticeHalted, "dev")
	for range 200 {
		w.look(n)
		w.store.pass(mostWait)
	}
	w.look(n)
	if got := len(w.received()); got < 72 || got > 90 {
		t.Errorf("it was tried %d times in three days", got)
	}
	trouble := strings.Join(n.Trouble(), "\n")
	if w.results[GivenUp] != 1 || strings.Count(w.log.String(), "was given up") != 1 || !strings.Contains(trouble, "events were given up: 1") {
		t.Errorf("%v, %q,\n%s", w.results, trouble, w.log.String())
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "soon": 0, "99999999": maxAfter, now.Add(time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {header}}}
		if got := judge(resp, now).after; got != want {
			t.Errorf("%q: %s; want %s", header, got, want)
		}
	}
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			rw.Header().Set("Retry-After", "7200")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	})
	n := w.notifier("a")
	w.look(n)
	w.happens(rollout.NoticeHalted, "dev")
	w.look(n)
	w.store.pass(2*time.Hour - time.Second)
	w.look(n)
	if got := len(w.received()); got != 1 {
		t.Errorf("%d posts in the two hours that the receiver wanted to be left alone for", got)
	}
	w.store.pass(time.Second)
	w.look(n)
	if got := len(w.received()); got != 2 {
		t.Errorf("%d posts; want 2", got)
	}
}

func TestAReceiverThatWantsNothingMoreIsToldNothing(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			rw.WriteHeader(http.StatusGone)
		}
	})
	n := w.notifier("a")
	w.look(n)
	w.happens(rollout.NoticeHalted, "dev")
	w.look(n)
	w.happens(rollout.NoticeHalted, "qa")
	w.store.pass(time.Hour)
	w.look(n)
	w.look(n, w.notifier("b"))
	if got := len(w.received()); got != 1 {
		t.Errorf("%d posts after 410", got-1)
	}
	if trouble := n.Trouble(); len(trouble) != 1 || !strings.Contains(trouble[0], "410 (gone)") {
		t.Errorf("trouble is %q", trouble)
	}
	if err := n.Test(t.Context(), "pager"); err != nil {
		t.Fatal(err)
	}
	w.happens(rollout.NoticeHalted, "prod")
	w.look(n)
	w.look(n)
	all := w.received()
	if last := all[len(all)-1]; last.body.Data.Groups == nil || last.body.Data.Groups[0].Name != "prod" {
		t.Errorf("after a test that it takes, it is told %s", last.raw)
	}
	if trouble := n.Trouble(); len(trouble) > 0 {
		t.Errorf("trouble is %q", trouble)
	}
}

// A receiver may hang, lie and send us elsewhere: it costs the time of one post, and
// nobody else's.
func TestReceiversThatHangAndLie(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request)
		delivered bool
		says      string
		hangs     bool // until the time is over, which is short then
	}{
		"garbage": {answer: func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "\x00\x1b[2J{]") }, delivered: true},
		"an endless body": {delivered: true, answer: func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}},
		"a body that never comes": {delivered: true, hangs: true, answer: func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusOK)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		"no answer": {hangs: true, answer: func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, says: "has not answered within"},
		"a redirect": {answer: func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
			says: "answers 307, and redirects are not followed"},
		"a broken connection": {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, says: "closed the connection without an answer"},
		"headers without end": {answer: func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(conn, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, says: "header"},
		"slow headers": {hangs: true, says: "has not answered within", answer: func(rw http.ResponseWriter, r *http.Request) {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			for {
				if _, err := io.WriteString(conn, "H"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hook("bad", "/bad", rollout.NoticeHalted)
			w.answers(func(rw http.ResponseWriter, r *http.Request, _ int) { tc.answer(rw, r) })
			n := w.notifier("a")
			if tc.hangs {
				n.opts.Timeout = 2 * time.Second
			}
			w.look(n)
			w.happens(rollout.NoticeHalted, "dev")
			w.look(n)
			h := n.Hooks()[0]
			if tc.delivered != h.Failing.IsZero() || tc.delivered != (h.Waiting == 0) || !strings.Contains(h.Error, tc.says) {
				t.Errorf("%+v", h)
			}
			for _, r := range w.received() {
				if strings.HasPrefix(r.path, "/elsewhere") {
					t.Error("the redirect was followed")
				}
			}
		})
	}
}

// A receiver that hangs keeps no other webhook: the good one is told while the post to
// the bad one is under way.
func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	w.hook("bad", "/bad", rollout.NoticeHalted)
	w.hook("good", "/good", rollout.NoticeHalted)
	good := make(chan struct{})
	w.answers(func(_ http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path == "/good" {
			close(good)
			return
		}
		<-good // the bad one answers after the good one was told
	})
	n := w.notifier("a")
	w.look(n)
	w.happens(rollout.NoticeHalted, "dev")
	w.look(n)
	for _, h := range n.Hooks() {
		if h.Delivered.IsZero() {
			t.Errorf("%s was not told: %+v", h.Name, h)
		}
	}
}

func TestTwoServersTellEachEventOnce(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted, rollout.NoticeDone)
	servers := []*Notifier{w.notifier("a"), w.notifier("b"), w.notifier("c")}
	w.look(servers...)
	const events = 20
	for i := range events {
		w.happens(rollout.NoticeHalted, fmt.Sprint("group", i))
		if i%5 == 0 {
			w.look(servers...)
		}
	}
	w.look(servers...)
	w.look(servers...)
	all := ids(w.received())
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != events || len(all) != events {
		t.Errorf("%d posts of %d events; want %d: %q", len(all), n, events, all)
	}
}

// A server that is killed between the post and the record of it is followed by another,
// which repeats the event under the same id, once the lease is over and not before.
func TestAfterAKillAnotherServerRepeatsTheEventUnderItsId(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	a, b := w.notifier("a"), w.notifier("b")
	w.look(a, b)
	w.happens(rollout.NoticeHalted, "dev")
	w.store.fail = func(string) error {
		if len(w.received()) > 0 {
			return errors.New("killed")
		}
		return nil
	}
	w.look(a)
	w.store.fail = nil
	a = w.notifier("a") // its next start
	w.look(a, b)
	if n := len(w.received()); n != 1 {
		t.Fatalf("%d posts while the lease holds", n)
	}
	w.store.pass(leaseTime)
	w.look(b, a)
	w.look(a, b)
	if all := ids(w.received()); len(all) != 2 || all[0] != all[1] {
		t.Errorf("posted are %q; want a repeat under the same id", all)
	}
}

// A server that is stopped while it posts lets the receiver answer, and records it.
func TestAServerThatIsStoppedTellsNothingTwice(t *testing.T) {
	for name, stopOn := range map[string]func(w *world, stop func()){
		"while the lease is written": func(w *world, stop func()) {
			w.store.fail = func(string) error { stop(); return nil }
		},
		"while the receiver answers": func(w *world, stop func()) {
			w.answers(func(http.ResponseWriter, *http.Request, int) { stop() })
		},
		"while the result is written": func(w *world, stop func()) {
			w.store.fail = func(string) error {
				if len(w.received()) > 0 {
					stop()
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hook("pager", "/", rollout.NoticeHalted)
			a, b := w.notifier("a"), w.notifier("b")
			w.look(a)
			w.happens(rollout.NoticeHalted, "dev")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stopOn(w, stop)
			if err := a.look(ctx); err != nil {
				t.Fatal(err)
			}
			a.working.Wait()
			if ctx.Err() == nil {
				t.Fatal("it was not stopped")
			}
			w.answers(nil)
			w.store.fail = nil
			w.look(b)
			if n := len(w.received()); n != 1 {
				t.Fatalf("%d posts; want 1", n)
			}
			w.store.pass(leaseTime)
			w.look(b)
			if h := b.Hooks()[0]; len(w.received()) != 1 || h.Waiting != 0 || h.Delivered.IsZero() {
				t.Errorf("%d posts, and then %+v; want the first one recorded", len(w.received()), h)
			}
		})
	}
}

// A result that could not be written, or not upon the state that the server had read, is
// written all the same: the receiver has taken the event.
func TestAResultThatMeetsAnErrorIsRecorded(t *testing.T) {
	for name, meet := range map[string]func(w *world, key string) error{
		"an error of the store": func(*world, string) error { return errors.New("away for a moment") },
		"a write of another server": func(w *world, key string) error {
			item, err := w.store.Get(t.Context(), key)
			if err == nil {
				_, err = w.store.Store.Put(t.Context(), key, item.Value, item.Revision)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hook("pager", "/", rollout.NoticeHalted)
			a, b := w.notifier("a"), w.notifier("b")
			w.look(a, b)
			w.happens(rollout.NoticeHalted, "dev")
			met := 0
			w.store.fail = func(key string) error {
				if len(w.received()) == 0 || met > 0 {
					return nil
				}
				met++
				return meet(w, key)
			}
			w.look(a)
			w.look(a)
			w.store.pass(leaseTime)
			w.look(b)
			w.look(a)
			if h := b.Hooks()[0]; met != 1 || len(w.received()) != 1 || h.Waiting != 0 || w.results[Delivered] != 1 {
				t.Errorf("%d errors, %d posts, %v, and then %+v; want one post that is recorded", met, len(w.received()), w.results, h)
			}
		})
	}
}

// A webhook that is removed, and written again, while a post to it is under way is a new one:
// it hears of nothing that was before it.
func TestAWebhookThatIsWrittenAgainDuringAPostIsNew(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	a := w.notifier("a")
	w.look(a)
	w.happens(rollout.NoticeHalted, "dev")
	w.answers(func(http.ResponseWriter, *http.Request, int) {
		w.answers(nil)
		for _, key := range []string{rollout.NotifyKey("pager"), statePrefix + "pager"} {
			item, err := w.store.Get(t.Context(), key)
			if err == nil {
				err = w.store.Delete(t.Context(), key, item.Revision)
			}
			if err != nil {
				t.Error(err)
			}
		}
		w.happens(rollout.NoticeHalted, "qa")
		w.hook("pager", "/", rollout.NoticeHalted)
	})
	w.look(a)
	w.look(a)
	if n := len(w.received()); n != 1 {
		t.Errorf("%d posts; want 1: %q", n, ids(w.received()))
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	h := &rollout.Notify{Spec: rollout.NotifySpec{Kinds: []rollout.NoticeKind{rollout.NoticeHalted}}}
	var list []notice
	for i := range maxWaiting + 7 {
		list = append(list, notice{fmt.Sprint(i), rollout.NoticeHalted, store.Revision(i + 1)})
	}
	s := begin(h)
	if dropped := s.take(list, h, w.store.time()); dropped != 7 || len(s.Waiting) != maxWaiting || s.Waiting[0].ID != "7" || s.GivenUp != 7 {
		t.Errorf("%d were dropped, %d wait from %s", dropped, len(s.Waiting), s.Waiting[0].ID)
	}
}

func TestAServerThatIsBlockedTellsWithoutItsStore(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeBlocked)
	w.hook("chat", "/chat", rollout.NoticeDone)
	n := w.notifier("a")
	w.look(n)
	block := func(lines ...string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked = lines
	}
	fails := 2
	w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n <= fails {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	block("the store is away")
	w.store.leave(errors.New("away"))
	w.look(n)
	if len(w.received()) != 0 {
		t.Fatal("a moment without a store is told")
	}
	w.store.pass(blockedFor)
	for range 20 {
		w.look(n)
		w.store.pass(firstWait)
	}
	all := w.received()
	if len(all) != 3 || all[0].id != all[2].id || all[0].body.Type != "rollout.blocked" || all[0].body.Data.Server != "a" ||
		all[0].body.Text != "the find server a cannot move the rollout: the store is away" {
		t.Errorf("told is %q: %+v", ids(all), all)
	}
	block()
	w.store.leave(nil)
	w.look(n)
	w.look(n)
	// What can be written goes over the store: another time, another event.
	block("its clock is wrong")
	w.look(n)
	w.store.pass(blockedFor)
	w.look(n)
	w.look(n)
	w.look(n)
	if all := w.received(); len(all) != 4 || all[3].id == all[0].id || all[3].body.Data.Blocked[0] != "its clock is wrong" {
		t.Errorf("told is %q", ids(all))
	}
}

func TestAWebhookThatIsRemovedLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	n := w.notifier("a")
	w.happens(rollout.NoticeHalted, "dev")
	w.look(n)
	item, err := w.store.Get(t.Context(), rollout.NotifyKey("pager"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Delete(t.Context(), item.Key, item.Revision); err != nil {
		t.Fatal(err)
	}
	w.look(n)
	w.look(n)
	if items, _, err := w.store.List(t.Context(), statePrefix); err != nil || len(items) != 0 || len(n.Hooks()) != 0 {
		t.Errorf("%v is left, %v", items, err)
	}
}

// A URL is secret as a whole if it is in a file: errors, the log and what is shown of the
// webhook have nothing of it.
func TestNothingOfASecretURLComesOut(t *testing.T) {
	w := newWorld(t)
	for i, address := range []string{"https://user:MARKED@127.0.0.1:1/MARKED?MARKED=MARKED", "http://example.com/MARKED", "MARKED", "https://MARKED.invalid/MARKED", "https://u:MARKED@[MARKED"} {
		w.put(&rollout.Notify{
			Kind: rollout.KindNotify, Metadata: rollout.Metadata{Name: fmt.Sprint("h", i)},
			Spec: rollout.NotifySpec{URLFile: w.write(fmt.Sprint("url", i), address), SecretFile: filepath.Join(w.dir, "secret"), Kinds: []rollout.NoticeKind{rollout.NoticeHalted}},
		})
	}
	n := w.notifier("a")
	w.look(n)
	w.happens(rollout.NoticeHalted, "dev")
	w.look(n)
	all := w.log.String()
	for _, h := range n.Hooks() {
		if h.Error == "" {
			t.Errorf("%s was told", h.Name)
		}
		if h.Name == "h3" { // the name of a host is no secret, and says what does not resolve
			continue
		}
		all += fmt.Sprintf("%+v %v", h, n.Test(t.Context(), h.Name))
	}
	for line := range strings.Lines(all) {
		if strings.Contains(line, "MARKED") && !strings.Contains(line, "webhook=h3") {
			t.Errorf("it comes out: %s", line)
		}
	}
}

// Nothing but the command knows of notifications, and they know no other room of their floor.
func TestNotificationsAreARoomOfTheirOwn(t *testing.T) {
	for _, pattern := range []string{"../*/*.go", "../*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 3 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			ours := strings.HasPrefix(file, "../notify/")
			for _, i := range parsed.Imports {
				if !ours && strings.Contains(i.Path.Value, "find/server/notify") || ours && strings.Contains(i.Path.Value, "find/server") {
					t.Errorf("%s imports %s", file, i.Path.Value)
				}
			}
		}
	}
}
