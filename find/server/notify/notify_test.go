package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
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

// A receiver that follows Standard Webhooks reads another key from each of them, or none.
func TestSecretsInAnotherForm(t *testing.T) {
	w := newWorld(t)
	plain := strings.TrimPrefix(secret, keyMark)
	for what, tc := range map[string]struct{ text, want string }{
		"nothing":           {"\n", "holds 0 secrets"},
		"five":              {strings.Repeat(secret+"\n", 5), "holds 5 secrets"},
		"a short key":       {"whsec_c2hvcnQ=", "has 5 bytes"},
		"a long key":        {keyMark + strings.Repeat("k", 88), "has 66 bytes"},
		"no mark":           {plain, "not a secret"},
		"a passphrase":      {"a passphrase of 24 bytes", "not a secret"},
		"hexadecimal":       {strings.Repeat("0f", 32), "not a secret"},
		"a signature's":     {"v1," + secret, "not a secret"},
		"quotes":            {`"` + secret + `"`, "not a secret"},
		"a byte order mark": {"\ufeff" + secret, "not a secret"},
		"a name":            {"SECRET=" + secret, "not a secret"},
		"a comment":         {"# pager\n" + secret, "line 1: it is not a secret"},
		"a second line":     {secret + "\nSECRET=" + secret, "line 2: it is not a secret"},
		"a word behind it":  {secret + " # pager", "not a secret"},
		"no padding":        {keyMark + strings.Repeat("k", 43), "not a secret"},
		"base64 for URLs":   {keyMark + strings.Repeat("-_kk", 10), "not a secret"},
	} {
		_, err := readKeys(w.write("s", tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), plain) {
			t.Errorf("%s: %v; want %s, and nothing of the secret", what, err, tc.want)
		}
	}
	if keys, err := readKeys(w.write("s", "\r\n"+secret+"\r\n  "+secret+"\n")); err != nil || len(keys) != 2 {
		t.Errorf("%q, %v", keys, err)
	}
}

// A server that starts with a webhook whose files cannot be used says so, before there is an event.
func TestAWebhookThatCannotPostIsNamedAtTheStart(t *testing.T) {
	for what, broken := range map[string]func(w *world, h *rollout.Notify){
		"a secret that is none": func(w *world, h *rollout.Notify) { h.Spec.SecretFile = w.write("s", "SECRET="+secret) },
		"no secret":             func(w *world, h *rollout.Notify) { h.Spec.SecretFile = "/nonexistent/secret" },
		"no URL":                func(w *world, h *rollout.Notify) { h.Spec.URL, h.Spec.URLFile = "", w.write("u", "none") },
		"no authorities":        func(w *world, h *rollout.Notify) { h.Spec.CAFile = w.write("ca", "none") },
	} {
		w := newWorld(t)
		h := w.resource("pager", "/", rollout.NoticeHalted)
		broken(w, h)
		w.put(h)
		n := w.notifier("a")
		for range 3 {
			w.look(n)
		}
		if log := w.log.String(); strings.Count(log, "no event can be posted to a webhook") != 1 || !strings.Contains(log, "webhook=pager") {
			t.Errorf("%s: the log is\n%s", what, log)
		}
		if trouble := n.Trouble(); len(trouble) != 1 || !strings.Contains(trouble[0], "webhook pager: no event can be delivered since") {
			t.Errorf("%s: trouble is %q", what, trouble)
		}
		w.hook("pager", "/", rollout.NoticeHalted)
		w.look(n)
		if trouble := n.Trouble(); len(trouble) > 0 {
			t.Errorf("%s: after the fix, trouble is %q", what, trouble)
		}
		if err := n.Test(t.Context(), "pager"); err != nil || len(n.Trouble()) > 0 {
			t.Errorf("%s: after the fix, %v, %q", what, err, n.Trouble())
		}
	}
}

func TestAnEventIsPostedOnceToThoseWhoWantIt(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/pager", rollout.NoticeHalted)
	w.hook("chat", "/chat", rollout.NoticeHalted, rollout.NoticeDone)
	a, b := w.notifier("a"), w.notifier("b")
	w.look(a, b)
	w.happens(a, rollout.NoticeHalted, "dev")
	w.happens(b, rollout.NoticeDone, "qa")
	for range 3 {
		w.look(a, b)
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
	if want := "rollout of 17.1.0 " + strings.TrimPrefix(first.body.Type, "rollout.") + ": group " + first.body.Data.Groups[0].Name +
		" (hosts_failed)"; first.body.Text != want {
		t.Errorf("people read %q; want %q", first.body.Text, want)
	}
	if w.results[Delivered] != 3 || len(w.results) != 1 {
		t.Errorf("the results are %v", w.results)
	}
	if trouble := append(a.Trouble(), b.Trouble()...); len(trouble) > 0 {
		t.Errorf("trouble is %q", trouble)
	}
}

// Chats take the text of an event as markup. A host chooses its name and its errors.
func TestTheWordsOfHostsAreInTheDataAlone(t *testing.T) {
	words := "canary <!here> failed: <!channel> run <https://evil.example.com|the fix> *now* @everyone"
	for _, kind := range rollout.NoticeKinds {
		n := rollout.Notice{Kind: kind, Target: "17.1.0", Groups: []rollout.NoticeGroup{
			{Name: "prod", Reason: "canary_failed", Message: words}, {Reason: "NoGroups", Message: words},
		}}
		data, err := message(n)
		if err != nil {
			t.Fatal(err)
		}
		var b body
		if err := json.Unmarshal(data, &b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.Text, "<>|*@") {
			t.Errorf("%s: the text has words of a host: %s", kind, b.Text)
		}
		if b.Data.Groups[0].Message != words {
			t.Errorf("%s: the data have %q", kind, b.Data.Groups[0].Message)
		}
	}
}

// minutes are the minutes after the event in which it is posted, tried for half an hour.
func (w *world) minutes(n *Notifier) (list []int) {
	w.t.Helper()
	for minute := range 30 {
		before := len(w.received())
		w.look(n)
		if len(w.received()) > before {
			list = append(list, minute)
		}
		w.store.pass(time.Minute)
	}
	return list
}

func TestAnEventIsTriedThreeTimesInTenMinutes(t *testing.T) {
	for what, tc := range map[string]struct {
		answers []int
		after   string
		minutes []int
		results map[Result]int
	}{
		"taken":                            {[]int{200}, "", []int{0}, map[Result]int{Delivered: 1}},
		"taken the third time":             {[]int{500, 404, 202}, "", []int{0, 1, 9}, map[Result]int{Failed: 2, Delivered: 1}},
		"never taken":                      {[]int{503, 503, 503}, "", []int{0, 1, 9}, map[Result]int{Failed: 2, GivenUp: 1}},
		"a receiver that is gone":          {[]int{410}, "", []int{0}, map[Result]int{GivenUp: 1}},
		"a receiver that wants a pause":    {[]int{429, 200}, "150", []int{0, 3}, map[Result]int{Failed: 1, Delivered: 1}},
		"a receiver that wants a long one": {[]int{429}, "3600", []int{0}, map[Result]int{GivenUp: 1}},
	} {
		w := newWorld(t)
		w.hook("pager", "/", rollout.NoticeHalted)
		w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
			if n > len(tc.answers) {
				t.Errorf("%s: post %d", what, n)
				return
			}
			if tc.after != "" {
				rw.Header().Set("Retry-After", tc.after)
			}
			rw.WriteHeader(tc.answers[n-1])
			io.WriteString(rw, "the receiver's words")
		})
		n := w.notifier("a")
		w.look(n)
		w.happens(n, rollout.NoticeHalted, "dev")
		if got := w.minutes(n); !slices.Equal(got, tc.minutes) || !maps.Equal(w.results, tc.results) {
			t.Errorf("%s: it was posted in the minutes %d, with %v; want %d and %v", what, got, w.results, tc.minutes, tc.results)
		}
		all := w.received()
		for _, r := range all {
			if r.id != all[0].id || string(r.raw) != string(all[0].raw) {
				t.Errorf("%s: the repeat %s has another id or body than %s", what, r.id, all[0].id)
			}
		}
		trouble, log := strings.Join(n.Trouble(), "\n"), w.log.String()
		lost := tc.results[GivenUp] > 0
		if lost != strings.Contains(trouble, "events that were not delivered: 1") || lost != strings.Contains(trouble, `: the receiver's words; after the fix`) ||
			lost != strings.Contains(log, "an event was not delivered, and is not posted again") || !lost && trouble != "" {
			t.Errorf("%s: trouble is %q, the log\n%s", what, trouble, log)
		}
		// The next event is posted, whatever became of this one.
		w.answers(nil)
		posts := len(w.received())
		w.happens(n, rollout.NoticeHalted, "qa")
		w.look(n)
		if h := n.Hooks()[0]; len(w.received()) != posts+1 || h.Error != "" || !h.Failing.IsZero() {
			t.Errorf("%s: and then %+v, after %d posts", what, h, len(w.received())-posts)
		}
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "soon": 0, "99999999": maxAfter, now.Add(time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {header}}}
		if got := judge(resp, "", now).after; got != want {
			t.Errorf("%q: %s; want %s", header, got, want)
		}
	}
}

// A server that starts posts what was not delivered in the last ten minutes, and nothing else.
func TestAServerThatStartsPostsWhatHasNoMark(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/pager", rollout.NoticeHalted)
	w.hook("chat", "/chat", rollout.NoticeHalted)
	a := w.notifier("a")
	w.look(a)
	w.happens(nil, rollout.NoticeHalted, "old")
	w.store.pass(rollout.NoticeLife)
	w.answers(func(rw http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path == "/chat" {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	w.happens(a, rollout.NoticeHalted, "half")
	w.look(a)
	w.happens(nil, rollout.NoticeHalted, "none")
	w.happens(nil, rollout.NoticeDone, "unwanted")
	w.answers(nil)
	before := len(w.received())
	b := w.notifier("b")
	w.look(b)
	w.look(b)
	var got []string
	for _, r := range w.received()[before:] {
		got = append(got, r.path+" "+r.id)
	}
	slices.Sort(got)
	if want := []string{"/chat msg_halted-half", "/chat msg_halted-none", "/pager msg_halted-none"}; !slices.Equal(got, want) {
		t.Errorf("posted are %q; want %q", got, want)
	}
	if w.results[GivenUp] > 0 || strings.Contains(w.log.String(), "is not posted again") {
		t.Errorf("an old event counts as one that was not delivered: %v\n%s", w.results, w.log.String())
	}
	// Nothing is left of it in the store in the end.
	if _, err := w.store.Purge(t.Context(), w.store.time().Add(rollout.NoticeLife)); err != nil {
		t.Fatal(err)
	}
	items, _, err := w.store.List(t.Context(), rollout.NoticePrefix)
	for _, item := range items {
		if strings.Contains(item.Key[len(rollout.NoticePrefix):], "/") {
			t.Errorf("%s is left, %v", item.Key, err)
		}
	}
}

// After a change of which nobody knows whether it was made, its events are posted if it was, once the store says so.
func TestTheEventsOfAChangeThatMayHaveBeenMade(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	a := w.notifier("a")
	w.look(a)
	w.store.leave(errors.New("away"))
	w.happens(nil, rollout.NoticeHalted, "dev")
	a.PostStored()
	w.look(a)
	w.store.leave(nil)
	w.look(a)
	a.PostStored()
	w.look(a)
	if all := ids(w.received()); !slices.Equal(all, []string{"msg_halted-dev"}) {
		t.Errorf("posted are %q", all)
	}
}

// Events of a server whose store is away go to the webhooks that it has read.
func TestAnEventIsPostedWhileTheStoreIsAway(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	a := w.notifier("a")
	w.look(a)
	w.happens(a, rollout.NoticeHalted, "dev")
	w.store.leave(errors.New("away"))
	for range 3 {
		w.look(a)
		w.store.pass(time.Minute)
	}
	if n := len(w.received()); n != 1 || !strings.Contains(w.log.String(), "the mark of a delivered event cannot be written") {
		t.Errorf("%d posts; the log is\n%s", n, w.log.String())
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
			w.happens(n, rollout.NoticeHalted, "dev")
			w.look(n)
			h := n.Hooks()[0]
			if tc.delivered != h.Failing.IsZero() || !strings.Contains(h.Error, tc.says) {
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
	w.happens(n, rollout.NoticeHalted, "dev")
	w.look(n)
	for _, h := range n.Hooks() {
		if !h.Failing.IsZero() {
			t.Errorf("%s was not told: %+v", h.Name, h)
		}
	}
}

// A server that is stopped while it posts lets the receiver answer, and writes the mark.
func TestAServerThatIsStoppedPostsNothingTwice(t *testing.T) {
	for name, stopOn := range map[string]func(w *world, stop func()){
		"while the receiver answers": func(w *world, stop func()) {
			w.answers(func(http.ResponseWriter, *http.Request, int) { stop() })
		},
		"while the mark is written": func(w *world, stop func()) {
			w.store.fail = func(string) error { stop(); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hook("pager", "/", rollout.NoticeHalted)
			a := w.notifier("a")
			w.look(a)
			w.happens(a, rollout.NoticeHalted, "dev")
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
			w.look(w.notifier("a"))
			if n := len(w.received()); n != 1 {
				t.Errorf("%d posts; want 1", n)
			}
		})
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
	w.answers(func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	block("the store is away")
	w.store.leave(errors.New("away"))
	if got := w.minutes(n); !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("it is posted in the minutes %d", got)
	}
	all := w.received()
	if all[0].id != all[1].id || all[0].body.Type != "rollout.blocked" || all[0].body.Data.Server != "a" ||
		all[0].body.Text != "the find server a cannot move the rollout: the store is away" {
		t.Errorf("posted is %q: %+v", ids(all), all)
	}
	block()
	w.store.leave(nil)
	w.look(n)
	block("its clock is wrong")
	w.minutes(n)
	if all := w.received(); len(all) != 3 || all[2].id == all[0].id || all[2].body.Data.Blocked[0] != "its clock is wrong" {
		t.Errorf("posted is %q", ids(all))
	}
}

func TestAWebhookThatIsRemovedGetsNothingMore(t *testing.T) {
	w := newWorld(t)
	w.hook("pager", "/", rollout.NoticeHalted)
	n := w.notifier("a")
	w.look(n)
	w.answers(func(rw http.ResponseWriter, _ *http.Request, _ int) { rw.WriteHeader(http.StatusBadGateway) })
	w.happens(n, rollout.NoticeHalted, "dev")
	w.look(n)
	item, err := w.store.Get(t.Context(), rollout.NotifyKey("pager"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Delete(t.Context(), item.Key, item.Revision); err != nil {
		t.Fatal(err)
	}
	if w.minutes(n); len(w.received()) != 1 || len(n.Hooks()) != 0 {
		t.Errorf("%d posts, %v", len(w.received()), n.Hooks())
	}
}

// The sentence of a receiver is quoted, unless it repeats a part of the URL.
func TestTheSentenceOfAReceiver(t *testing.T) {
	address := "https://user:pass-of-somebody@hooks.example.com/services/T000/B0secret?key=a%20long%20key"
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{
		"":              "",
		" no_service\n": ": no_service",
		`{"message": "Unknown Webhook", "code": 10015}`: `: {"message": "Unknown Webhook", "code": 10015}`,
		"\x1b[2Jbad\nrequest":                           ": ",
		"no /services/T000/B0secret":                    "repeats",
		"no B0secret?key":                               "repeats",
		"no key a long key":                             "repeats",
		"no key a%20long%20key":                         "repeats",
		"Basic dXNlcjpwYXNzLW9mLXNvbWVib2R5":            "repeats",
		"not pass-of-somebody":                          "repeats",
		strings.Repeat("x", 300) + "/services/T000":     "repeats",
	} {
		got := sentence(answer, u)
		if !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "\x1b") || len(got) > maxSentence+10 {
			t.Errorf("%q: %q; want %q", answer, got, want)
		}
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
	w.happens(n, rollout.NoticeHalted, "dev")
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
