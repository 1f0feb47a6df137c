package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// reportWorld is a server that takes reports, without a network.
type reportWorld struct {
	*control
	w       *storeWorld
	handler http.Handler
	secrets map[int]string
	last    map[int]uint32
}

// reporting starts one on the world's store, as after a restart.
func (w *storeWorld) reporting(c *clock, s store.Store) *reportWorld {
	w.t.Helper()
	f, err := OpenFleet(w.t.Context(), FleetOptions{Store: s, Clock: c.Now, Log: w.options.Log})
	if err != nil {
		w.t.Fatal(err)
	}
	r := &reportWorld{control: w.control(c, s), w: w, secrets: make(map[int]string), last: make(map[int]uint32)}
	r.fleet = f
	r.engine = NewEngine(EngineOptions{Stored: r.stored, Inventory: f, Log: w.options.Log})
	r.handler = New(Options{Answers: r.stored, Fleet: f, Log: w.options.Log})
	return r
}

// again is the same server after a restart, or a kill.
func (r *reportWorld) again(s store.Store) *reportWorld {
	next := r.w.reporting(r.clock, s)
	next.secrets, next.last = r.secrets, r.last
	return next
}

func (r *reportWorld) token(name string, groups ...string) string {
	r.t.Helper()
	made, err := r.fleet.AddToken(r.t.Context(), AdminTokenRequest{Name: name, Groups: groups}, store.Audit{Who: "uid 0", Time: r.clock.Now()}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return made.Token
}

func (r *reportWorld) post(path, auth, body string) (int, find.HeartbeatError) {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	var said find.HeartbeatError
	if err := json.Unmarshal(rec.Body.Bytes(), &said); err != nil {
		r.t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, said
}

func secretOf(i int) string { return fmt.Sprintf("%064x", i+1) }

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (r *reportWorld) joins(i int, token, secret, group string) (int, find.HeartbeatError) {
	r.t.Helper()
	body, err := json.Marshal(find.Join{HostID: hostUUID(i), SecretHash: hashOf(secret), Group: group, Hostname: fmt.Sprint("web-", i)})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.post(find.JoinPath, "Bearer "+token, string(body))
}

// joined has hosts join, each with a secret of its own.
func (r *reportWorld) joined(token, group string, hosts ...int) {
	r.t.Helper()
	for _, i := range hosts {
		r.secrets[i] = secretOf(i)
		if status, said := r.joins(i, token, r.secrets[i], group); status != http.StatusOK {
			r.t.Fatalf("join: %d %+v", status, said)
		}
	}
}

// says has a host report over HTTP.
func (r *reportWorld) says(i int, group, v string, edit func(*find.Heartbeat)) (int, find.HeartbeatError) {
	r.t.Helper()
	r.last[i]++
	b := find.Heartbeat{HostID: hostUUID(i), Sequence: r.last[i], BootID: "boot of " + fmt.Sprint(i), Hostname: fmt.Sprint("web-", i), Group: group, Version: v}
	if edit != nil {
		edit(&b)
	}
	body, err := json.Marshal(b)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.post(find.HeartbeatPath, "Bearer "+r.secrets[i], string(body))
}

func (r *reportWorld) said(i int, group, v string, edit func(*find.Heartbeat)) {
	r.t.Helper()
	if status, said := r.says(i, group, v, edit); status != http.StatusOK {
		r.t.Fatalf("report of %d: %d %+v", i, status, said)
	}
}

// everything is all that the server knows, in memory and in the store.
func (r *reportWorld) everything() string {
	r.t.Helper()
	var text strings.Builder
	r.fleet.each(func(e *fleet.Entry) { fmt.Fprintf(&text, "%+v\n", *e) })
	items, at, err := r.w.other.List(context.Background(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	fmt.Fprintln(&text, at)
	for _, item := range items {
		fmt.Fprintln(&text, item.Key, item.Revision)
	}
	return text.String()
}

func failedAt(target, text string) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: target, State: "rolled_back", Error: text, Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)}
	}
}

// Each of these is refused with a clear error, and changes nothing, in memory or in
// the store.
func TestHostileReportsChangeNothing(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token, devToken := r.token("all"), r.token("dev-only", "dev")
	revoked := r.token("old")
	if err := r.fleet.RevokeToken(t.Context(), "old", store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	expired, err := r.fleet.AddToken(t.Context(), AdminTokenRequest{Name: "short", ExpiresIn: "1s"}, store.Audit{Who: "uid 0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	r.clock.pass(2 * time.Second)
	r.joined(token, "dev", 0, 1, 2)
	r.joined(devToken, "dev", 3)
	r.said(0, "dev", "17.2.0", nil)
	r.said(1, "dev", "17.2.0", nil)
	if err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(2)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	beat := func(fields string) string { return `{"host_id":"` + hostUUID(0) + `","sequence":7,` + fields + `}` }
	good := beat(`"version":"17.2.0"`)
	join := func(fields string) string { return `{"host_id":"` + hostUUID(9) + `",` + fields + `}` }
	hash := `"secret_sha256":"` + hashOf("secret of the ninth host") + `"`
	goodJoin := join(hash)
	own, tok := "Bearer "+r.secrets[0], "Bearer "+token
	long := strings.Repeat("x", 300)
	type hostile struct {
		name, path, auth, body string
		status                 int
		says                   string
	}
	cases := []hostile{
		// Who it is.
		{"no authorization", find.HeartbeatPath, "", good, 401, "Authorization"},
		{"basic authorization", find.HeartbeatPath, "Basic " + r.secrets[0], good, 401, "Authorization"},
		{"bearer in lower case", find.HeartbeatPath, "bearer " + r.secrets[0], good, 401, "Authorization"},
		{"an empty secret", find.HeartbeatPath, "Bearer ", good, 401, "Authorization"},
		{"a short secret", find.HeartbeatPath, "Bearer x", good, 401, "Authorization"},
		{"an endless secret", find.HeartbeatPath, "Bearer " + strings.Repeat("a", 5000), good, 401, "Authorization"},
		{"a secret with a blank at its end", find.HeartbeatPath, own + " ", good, 401, "no host"},
		{"a secret in upper case", find.HeartbeatPath, "Bearer " + strings.ToUpper("abcdef"+r.secrets[0]), good, 401, "no host"},
		{"half of the secret", find.HeartbeatPath, own[:len(own)/2], good, 401, "no host"},
		{"the digest of the secret", find.HeartbeatPath, "Bearer " + hashOf(r.secrets[0]), good, 401, "no host"},
		{"half of the digest, as it is in the store", find.HeartbeatPath, "Bearer " + hashOf(r.secrets[0])[:32], good, 401, "no host"},
		{"zeros", find.HeartbeatPath, "Bearer " + strings.Repeat("0", 64), good, 401, "no host"},
		{"zeros, of a revoked host", find.HeartbeatPath, "Bearer " + strings.Repeat("0", 64), strings.Replace(good, hostUUID(0), hostUUID(2), 1), 401, "no host"},
		{"the join token", find.HeartbeatPath, tok, good, 401, "no host"},
		{"the secret of another host", find.HeartbeatPath, "Bearer " + r.secrets[1], good, 401, "no host"},
		{"a host that nobody knows", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), hostUUID(77), 1), 401, "no host"},
		{"a revoked secret", find.HeartbeatPath, "Bearer " + r.secrets[2], strings.Replace(good, hostUUID(0), hostUUID(2), 1), 401, "no host"},
		{"a failure of another host", find.HeartbeatPath, "Bearer " + r.secrets[1], beat(`"version":"17.2.0","outcome":{"target":"17.2.1","state":"failed","time":"2025-06-02T12:00:00Z"}`), 401, "no host"},
		{"a failure without a secret", find.HeartbeatPath, "", beat(`"outcome":{"target":"17.2.1","state":"failed","time":"2025-06-02T12:00:00Z"}`), 401, "Authorization"},
		{"a group that the token is not for", find.HeartbeatPath, "Bearer " + r.secrets[3], strings.Replace(beat(`"group":"prod"`), hostUUID(0), hostUUID(3), 1), 403, "dev only"},
		{"no group, and the token is for one", find.HeartbeatPath, "Bearer " + r.secrets[3], strings.Replace(beat(`"version":"17.2.0"`), hostUUID(0), hostUUID(3), 1), 403, "dev only"},
		// Replays.
		{"the same sequence again", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:1,`, 1), 409, "last report"},
		{"the sequence zero", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:0,`, 1), 400, "sequence"},
		{"no sequence", find.HeartbeatPath, own, strings.Replace(good, `"sequence":7,`, ``, 1), 400, "sequence"},
		{"a negative sequence", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:-7,`, 1), 400, "sequence"},
		{"a sequence beyond 32 bits", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:4294967296,`, 1), 400, "sequence"},
		{"a sequence beyond 64 bits", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:18446744073709551617,`, 1), 400, "sequence"},
		{"a sequence that is a fraction", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:7.5,`, 1), 400, "sequence"},
		{"a sequence with an exponent", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:1e3,`, 1), 400, "sequence"},
		{"a sequence that is text", find.HeartbeatPath, own, strings.Replace(good, `:7,`, `:"7",`, 1), 400, "sequence"},
		// What it sends.
		{"nothing", find.HeartbeatPath, own, "", 400, "one JSON object"},
		{"blanks", find.HeartbeatPath, own, " \n", 400, "one JSON object"},
		{"null", find.HeartbeatPath, own, "null", 400, "no value"},
		{"a number", find.HeartbeatPath, own, "7", 400, "mapping"},
		{"a list", find.HeartbeatPath, own, "[" + good + "]", 400, "mapping"},
		{"text", find.HeartbeatPath, own, `"` + hostUUID(0) + `"`, 400, "mapping"},
		{"YAML", find.HeartbeatPath, own, "host_id: " + hostUUID(0) + "\nsequence: 7\n", 400, "JSON"},
		{"a form", find.HeartbeatPath, own, "host_id=" + hostUUID(0), 400, "JSON"},
		{"half of an object", find.HeartbeatPath, own, good[:len(good)/2], 400, "JSON"},
		{"two objects", find.HeartbeatPath, own, good + good, 400, "one JSON object"},
		{"something behind it", find.HeartbeatPath, own, good + "x", 400, "JSON"},
		{"an empty object", find.HeartbeatPath, own, "{}", 400, "host_id"},
		{"a name twice", find.HeartbeatPath, own, beat(`"version":"17.2.0","version":"17.2.1"`), 400, "twice"},
		{"another host_id after the first", find.HeartbeatPath, own, beat(`"host_id":"` + hostUUID(1) + `"`), 400, "twice"},
		{"a name in another case", find.HeartbeatPath, own, beat(`"Version":"17.2.0"`), 400, "unknown field"},
		{"a field that there is not", find.HeartbeatPath, own, beat(`"canary":true`), 400, "unknown field"},
		{"a field of the server's own", find.HeartbeatPath, own, beat(`"cloned":false`), 400, "unknown field"},
		{"the secret in the body", find.HeartbeatPath, own, beat(`"secret":"` + r.secrets[0] + `"`), 400, "unknown field"},
		{"a null", find.HeartbeatPath, own, beat(`"version":null`), 400, "no value"},
		{"lists a hundred thousand deep", find.HeartbeatPath, own, beat(`"group":` + strings.Repeat("[", 7000) + strings.Repeat("]", 7000)), 400, "deep"},
		{"more than is taken", find.HeartbeatPath, own, beat(`"group":"` + strings.Repeat("x", find.MaxHeartbeat) + `"`), 413, "larger"},
		{"megabytes of blanks", find.HeartbeatPath, own, strings.Repeat(" ", 4<<20) + good, 413, "larger"},
		// Each field.
		{"a host_id that is no UUID", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), "web-1", 1), 400, "host_id"},
		{"a host_id of zeros", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), "00000000-0000-0000-0000-000000000000", 1), 400, "host_id"},
		{"a host_id in braces", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), "{"+hostUUID(0)+"}", 1), 400, "host_id"},
		{"a host_id with a path", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), hostUUID(0)+"/../x", 1), 400, "host_id"},
		{"an endless host_id", find.HeartbeatPath, own, strings.Replace(good, hostUUID(0), long, 1), 400, "host_id"},
		{"a host_id that is a number", find.HeartbeatPath, own, strings.Replace(good, `"`+hostUUID(0)+`"`, "7", 1), 400, "string"},
		{"a host_id that is a list", find.HeartbeatPath, own, strings.Replace(good, `"`+hostUUID(0)+`"`, `["`+hostUUID(0)+`"]`, 1), 400, "single value"},
		{"an updater_id that is no UUID", find.HeartbeatPath, own, beat(`"updater_id":"me"`), 400, "updater_id"},
		{"an endless updater_id", find.HeartbeatPath, own, beat(`"updater_id":"` + long + `"`), 400, "updater_id"},
		{"an endless boot_id", find.HeartbeatPath, own, beat(`"boot_id":"` + long + `"`), 400, "boot_id"},
		{"a boot_id with a new line", find.HeartbeatPath, own, beat(`"boot_id":"a\nb"`), 400, "boot_id"},
		{"an endless hostname", find.HeartbeatPath, own, beat(`"hostname":"` + long + `"`), 400, "hostname"},
		{"a hostname with an escape sequence", find.HeartbeatPath, own, beat(`"hostname":"\u001b[31mred"`), 400, "hostname"},
		{"a hostname with a new line", find.HeartbeatPath, own, beat(`"hostname":"a\nlevel=ERROR"`), 400, "hostname"},
		{"a hostname with a zero", find.HeartbeatPath, own, beat(`"hostname":"a\u0000b"`), 400, "hostname"},
		{"a hostname that is a number", find.HeartbeatPath, own, beat(`"hostname":7`), 400, "string"},
		{"an endless group", find.HeartbeatPath, own, beat(`"group":"` + long + `"`), 400, "group"},
		{"a group with a tab", find.HeartbeatPath, own, beat(`"group":"a\tb"`), 400, "group"},
		{"a group that is an object", find.HeartbeatPath, own, beat(`"group":{"name":"dev"}`), 400, "single value"},
		{"a version that is none", find.HeartbeatPath, own, beat(`"version":"latest"`), 400, "version"},
		{"a version that is a path", find.HeartbeatPath, own, beat(`"version":"../../etc"`), 400, "version"},
		{"a version that is a number", find.HeartbeatPath, own, beat(`"version":17.2`), 400, "string"},
		{"an endless version", find.HeartbeatPath, own, beat(`"version":"17.2.0-` + strings.Repeat("a", 200) + `"`), 400, "version"},
		{"an endless edition", find.HeartbeatPath, own, beat(`"edition":"` + long + `"`), 400, "edition"},
		{"an edition with a bell", find.HeartbeatPath, own, beat(`"edition":"\u0007"`), 400, "edition"},
		{"an endless arch", find.HeartbeatPath, own, beat(`"arch":"` + long + `"`), 400, "arch"},
		{"pinned in words", find.HeartbeatPath, own, beat(`"pinned":"true"`), 400, "true or false"},
		{"disabled as a number", find.HeartbeatPath, own, beat(`"disabled":1`), 400, "true or false"},
		{"unhealthy as null", find.HeartbeatPath, own, beat(`"unhealthy":null`), 400, "no value"},
		{"told what is no version", find.HeartbeatPath, own, beat(`"told":"yes"`), 400, "told"},
		{"an endless told", find.HeartbeatPath, own, beat(`"told":"17.2.0-` + strings.Repeat("a", 200) + `"`), 400, "version"},
		{"an outcome that is text", find.HeartbeatPath, own, beat(`"outcome":"failed"`), 400, "outcome"},
		{"an empty outcome", find.HeartbeatPath, own, beat(`"outcome":{}`), 400, "outcome"},
		{"an outcome without a target", find.HeartbeatPath, own, beat(`"outcome":{"state":"failed","time":"2025-06-02T12:00:00Z"}`), 400, "outcome"},
		{"an outcome without a time", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed"}`), 400, "outcome"},
		{"an outcome of another state", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"exploded","time":"2025-06-02T12:00:00Z"}`), 400, "state"},
		{"an outcome with another field", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":"2025-06-02T12:00:00Z","hosts":7}`), 400, "unknown field"},
		{"an outcome at no time", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":"yesterday"}`), 400, "time"},
		{"an outcome in the year 9999", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":"9999-06-02T12:00:00Z"}`), 400, "year"},
		{"an outcome in the year 1", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":"0001-01-02T00:00:00Z"}`), 400, "year"},
		{"an outcome in seconds", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":1717329600}`), 400, "string"},
		{"an endless error", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1","state":"failed","time":"2025-06-02T12:00:00Z","error":"` + strings.Repeat("e", 5000) + `"}`), 400, "error"},
		{"an endless target", find.HeartbeatPath, own, beat(`"outcome":{"target":"17.2.1-` + strings.Repeat("a", 200) + `","state":"failed","time":"2025-06-02T12:00:00Z"}`), 400, "target"},
		{"two outcomes", find.HeartbeatPath, own, beat(`"outcome":[{},{}]`), 400, "outcome"},

		// Joins.
		{"join: no authorization", find.JoinPath, "", goodJoin, 401, "Authorization"},
		{"join: a token that there is not", find.JoinPath, "Bearer teleport-find-aaaaaaaaaaaaaaaaaaaaaaaaaa", goodJoin, 401, "no such join token"},
		{"join: a revoked token", find.JoinPath, "Bearer " + revoked, goodJoin, 401, "no such join token"},
		{"join: an expired token", find.JoinPath, "Bearer " + expired.Token, goodJoin, 401, "no such join token"},
		{"join: the name of a token", find.JoinPath, "Bearer all-all-all-all-all", goodJoin, 401, "no such join token"},
		{"join: the digest of a token", find.JoinPath, "Bearer " + hashOf(token), goodJoin, 401, "no such join token"},
		{"join: the token in upper case", find.JoinPath, "Bearer " + strings.ToUpper(token), goodJoin, 401, "no such join token"},
		{"join: the secret of a host", find.JoinPath, own, goodJoin, 401, "no such join token"},
		{"join: two tokens", find.JoinPath, tok + "," + token, goodJoin, 401, "no such join token"},
		{"join: a group that the token is not for", find.JoinPath, "Bearer " + devToken, join(hash + `,"group":"prod"`), 403, "dev only"},
		{"join: no group, and the token is for one", find.JoinPath, "Bearer " + devToken, goodJoin, 403, "dev only"},
		{"join: a host that is known", find.JoinPath, tok, strings.Replace(goodJoin, hostUUID(9), hostUUID(0), 1), 409, "joined already"},
		{"join: a host that is known, in upper case", find.JoinPath, tok, strings.Replace(goodJoin, hostUUID(9), strings.ToUpper(hostUUID(0)), 1), 409, "joined already"},
		{"join: a host that is known and never reported", find.JoinPath, tok, strings.Replace(join(hash+`,"group":"dev"`), hostUUID(9), hostUUID(3), 1), 409, "joined already"},
		{"join: the secret itself", find.JoinPath, tok, join(`"secret":"` + secretOf(9) + `"`), 400, "unknown field"},
		{"join: no digest", find.JoinPath, tok, `{"host_id":"` + hostUUID(9) + `"}`, 400, "secret_sha256"},
		{"join: half a digest", find.JoinPath, tok, join(`"secret_sha256":"` + hashOf("x")[:32] + `"`), 400, "secret_sha256"},
		{"join: a digest in upper case", find.JoinPath, tok, join(`"secret_sha256":"` + strings.ToUpper(hashOf("x")) + `"`), 400, "secret_sha256"},
		{"join: no digest of anything", find.JoinPath, tok, join(`"secret_sha256":"` + strings.Repeat("z", 64) + `"`), 400, "secret_sha256"},
		{"join: a digest of zeros", find.JoinPath, tok, join(`"secret_sha256":"` + strings.Repeat("0", 64) + `"`), 400, "secret_sha256"},
		{"join: no host", find.JoinPath, tok, `{` + hash + `}`, 400, "host_id"},
		{"join: a host_id that is no UUID", find.JoinPath, tok, strings.Replace(goodJoin, hostUUID(9), "all", 1), 400, "host_id"},
		{"join: a host_id of zeros", find.JoinPath, tok, strings.Replace(goodJoin, hostUUID(9), "00000000-0000-0000-0000-000000000000", 1), 400, "host_id"},
		{"join: a hostname with a new line", find.JoinPath, tok, join(hash + `,"hostname":"a\nb"`), 400, "hostname"},
		{"join: an endless hostname", find.JoinPath, tok, join(hash + `,"hostname":"` + long + `"`), 400, "hostname"},
		{"join: an endless group", find.JoinPath, tok, join(hash + `,"group":"` + long + `"`), 400, "group"},
		{"join: a list", find.JoinPath, tok, `[` + goodJoin + `]`, 400, "mapping"},
		{"join: nothing", find.JoinPath, tok, ``, 400, "one JSON object"},
		{"join: two objects", find.JoinPath, tok, goodJoin + goodJoin, 400, "one JSON object"},
		{"join: a field twice", find.JoinPath, tok, join(hash + "," + hash), 400, "twice"},
		{"join: more than is taken", find.JoinPath, tok, join(hash + `,"hostname":"` + strings.Repeat("x", find.MaxHeartbeat) + `"`), 413, "larger"},
	}
	if len(cases) < 100 {
		t.Errorf("there are %d cases", len(cases))
	}
	before := r.everything()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r.t = t
			status, said := r.post(tc.path, tc.auth, tc.body)
			if status != tc.status || !strings.Contains(said.Error, tc.says) {
				t.Errorf("%d %q; want %d, and %q in it", status, said.Error, tc.status, tc.says)
			}
			if len(said.Error) > 500 || strings.ContainsFunc(said.Error, func(r rune) bool { return r < ' ' }) {
				t.Errorf("the error is not one line: %q", said.Error)
			}
			for _, secret := range []string{r.secrets[0], r.secrets[1], token, devToken} {
				if strings.Contains(said.Error, secret) {
					t.Error("the error tells a secret")
				}
			}
			if after := r.everything(); after != before {
				t.Errorf("something changed:\n%s\n%s", before, after)
				before = after
			}
		})
	}
	r.t = t
	r.said(0, "dev", "17.2.0", nil) // all of that was for nothing
	for _, secret := range []string{r.secrets[0], token} {
		if strings.Contains(w.log.String(), secret) {
			t.Error("the log tells a secret")
		}
	}
	// Other ways to ask.
	for _, tc := range []struct {
		method, path, contentType string
		status                    int
	}{
		{http.MethodGet, find.HeartbeatPath, "application/json", 404},
		{http.MethodPut, find.HeartbeatPath, "application/json", 404},
		{http.MethodPost, find.HeartbeatPath + "/", "application/json", 404},
		{http.MethodPost, "/v1/agents", "application/json", 404},
		{http.MethodPost, find.HeartbeatPath, "", 415},
		{http.MethodPost, find.HeartbeatPath, "text/plain", 415},
		{http.MethodPost, find.HeartbeatPath, "application/x-www-form-urlencoded", 415},
	} {
		req := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, strings.NewReader(good))
		req.Header.Set("Authorization", own)
		req.Header.Set("Content-Type", tc.contentType)
		rec := httptest.NewRecorder()
		r.handler.ServeHTTP(rec, req)
		if rec.Code != tc.status {
			t.Errorf("%s %s as %q: %d; want %d", tc.method, tc.path, tc.contentType, rec.Code, tc.status)
		}
	}
	twice := httptest.NewRequestWithContext(t.Context(), http.MethodPost, find.HeartbeatPath, strings.NewReader(good))
	twice.Header["Authorization"] = []string{own, "Bearer " + r.secrets[1]}
	twice.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	if r.handler.ServeHTTP(rec, twice); rec.Code != 401 {
		t.Errorf("two secrets: %d", rec.Code)
	}
}

// What a host sends is what a server takes, field by field.
func TestTheServerTakesWhatAHostSends(t *testing.T) {
	sent := find.Heartbeat{
		HostID: hostUUID(1), Sequence: 3, BootID: "b", UpdaterID: hostUUID(2), Hostname: "web-1", Group: "dev", Version: "17.2.0", Edition: "oss", Arch: "amd64",
		Pinned: true, Disabled: true, Unhealthy: true, Told: "17.2.1",
		Outcome: &find.Outcome{Target: "17.2.1", State: "rolled_back", Error: "it broke", Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)},
	}
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := parseHeartbeat(body)
	if err != nil {
		t.Fatal(err)
	}
	var slowly rollout.Heartbeat
	if err := rollout.DecodeJSON(body, &slowly); err != nil || !reflect.DeepEqual(taken, slowly) {
		t.Errorf("%+v\n%+v, %v", taken, slowly, err)
	}
	if err := checkHeartbeat(&taken); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(taken)
	if err != nil || string(again) != string(body) {
		t.Errorf("%s\n%s, %v", body, again, err)
	}
	if n := strings.Count(string(body), `":`); n != 19-1 {
		t.Errorf("%d fields were sent: a new one is to be here", n)
	}
}

// A host joins once. With the same secret it may ask again, as the answer may have
// been lost; with another one it has to be let go first.
func TestASecondJoin(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0)
	r.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Errorf("the same join again: %d %+v", status, said)
	}
	if status, _ := r.joins(0, token, "another secret of the host", "dev"); status != http.StatusConflict {
		t.Errorf("a second join: %d", status)
	}
	if err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0", Why: "disk exchanged"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusUnauthorized {
		t.Errorf("a report after it was revoked: %d", status)
	}
	r.secrets[0] = "another secret of the host"
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Fatalf("a join after it was revoked: %d %+v", status, said)
	}
	r.last[0] = 0
	r.said(0, "dev", "17.2.0", nil)
	e, _ := r.fleet.entry(rollout.ParseHostID(hostUUID(0)))
	if e.Failed.Error != "it broke" {
		t.Errorf("the verdict is gone with the secret: %+v", e)
	}
	records, err := w.store.History(t.Context(), 10)
	if err != nil || len(records) != 2 || records[0].What != "revoke "+hostUUID(0) || records[0].Why != "disk exchanged" || records[1].What != "tokens add all" {
		t.Errorf("%+v, %v", records, err)
	}
}

// Two hosts with one secret are told by their boots, which take turns; a reboot is
// none.
func TestAClonedSecret(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	id := rollout.ParseHostID(hostUUID(0))
	boot := func(b, v string) *fleet.Entry {
		r.clock.pass(5 * time.Minute)
		r.said(0, "dev", v, func(h *find.Heartbeat) { h.BootID = b })
		e, _ := r.fleet.entry(id)
		return &e
	}
	for _, b := range []string{"a", "a", "b", "c", "d", "d", "e"} {
		if e := boot(b, "17.2.0"); e.Cloned {
			t.Fatalf("after the boot %s it counts as cloned", b)
		}
	}
	if e := boot("d", "17.2.1"); !e.Cloned || e.Version != "17.2.0" || e.Omitted(r.clock.Now()) == "" {
		t.Errorf("a boot that comes back: %+v", e)
	}
	if e := boot("e", "17.2.1"); !e.Cloned || e.Version != "17.2.0" {
		t.Errorf("and its clone: %+v", e)
	}
	r = r.again(w.other)
	for range 5 {
		if e := boot("e", "17.2.1"); !e.Cloned {
			t.Fatal("the mark goes while the other one may be there")
		}
	}
	if e := boot("e", "17.2.1"); e.Cloned || e.Version != "17.2.1" {
		t.Errorf("the other one is gone: %+v", e)
	}
	for _, b := range []string{"x", "y", "z", "x"} { // three of them
		boot(b, "17.2.1")
	}
	if e, _ := r.fleet.entry(id); !e.Cloned {
		t.Error("three hosts with one secret are not seen")
	}
}

// What was answered is there after a kill: the verdict of a host above all.
func TestARestartForgetsNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12, max_failed_before_halt: 0%}"))
	w.write(regular)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	hosts := []int{0, 1, 2, 3}
	r.joined(token, "dev", hosts...)
	round := func(failing int) {
		for _, i := range hosts {
			r.said(i, "dev", "17.2.0", func(b *find.Heartbeat) {
				if a := r.stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(i)}); a.AutoUpdate {
					b.Told = a.Version
				}
				if i == failing {
					failedAt("17.2.1", "it broke\nbadly")(b)
				}
			})
		}
	}
	tick := func() { // of a fleet and of an engine
		t.Helper()
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.tick()
	}
	for range 6 {
		r.clock.pass(10 * time.Minute)
		round(-1)
		tick()
	}
	tick()
	if got := r.states(); got != "active" {
		t.Fatalf("the group is %s\n%s", got, w.log.String())
	}
	r.clock.pass(time.Minute)
	round(2) // and the server is killed before the engine looks
	r = r.again(w.other)
	r.tick()
	got := r.rollout().Status.Groups[0]
	if got.Halted == nil || !strings.Contains(got.Halted.Message, "web-2 (00000002-0000-4000-8000-000000000000): it broke badly") {
		t.Errorf("the verdict is forgotten: %+v\n%s", got, w.log.String())
	}
	// All of a host is there again.
	var before, after fleet.Entry
	first := r.fleet
	r = r.again(w.store)
	for _, i := range hosts {
		before, _ = first.entry(rollout.ParseHostID(hostUUID(i)))
		after, _ = r.fleet.entry(rollout.ParseHostID(hostUUID(i)))
		if matters(before, after) {
			t.Errorf("%+v\n%+v", before, after)
		}
	}
}

// A server that was away for a moment goes on; one that was away for longer waits until
// hosts have had time to report.
func TestAShortRestartNeedsNoWait(t *testing.T) {
	for _, tc := range []struct {
		away     time.Duration
		complete bool
	}{{time.Minute, true}, {3 * time.Minute, true}, {4 * time.Minute, false}, {time.Hour, false}} {
		w := newStoreWorld(t)
		r := w.reporting(newClock(), w.store)
		r.joined(r.token("all"), "dev", 0, 1)
		for range 4 {
			r.clock.pass(8 * time.Minute)
			r.said(0, "dev", "17.2.0", nil)
			if err := r.fleet.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.said(1, "dev", "17.2.0", nil)
		r.clock.pass(24 * time.Minute)
		r.said(0, "dev", "17.2.0", nil)
		r.fleet.keep.lastSave = time.Time{}
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.clock.pass(tc.away)
		r = r.again(w.other)
		if r.fleet.Len() != 2 {
			t.Fatalf("%d hosts", r.fleet.Len())
		}
		n := r.fleet.Counts(new(rollout.Rollout), nil, r.clock.Now())
		if n.Complete != tc.complete {
			t.Errorf("after %s the counts are complete: %t", tc.away, n.Complete)
		}
		// The second host could not report while nobody was there.
		if e, _ := r.fleet.entry(rollout.ParseHostID(hostUUID(1))); tc.complete && e.Omitted(r.clock.Now()) != "" {
			t.Errorf("after %s a host is %s", tc.away, e.Omitted(r.clock.Now()))
		}
		// What was replayed from before is still refused.
		r.last[0]--
		if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusConflict {
			t.Errorf("a replay after a restart: %d", status)
		}
	}
}

// Two servers with one store know the same hosts, and their verdicts.
func TestTwoServersKnowTheSameHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	token := a.token("all")
	b.joined(token, "dev", 0)
	sync := func(r *reportWorld) {
		t.Helper()
		if err := r.fleet.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync(a)
	a.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	clock.pass(time.Minute)
	b.said(0, "dev", "17.2.2", nil) // which does not know of it yet
	sync(a)
	for _, r := range []*reportWorld{a, b} {
		e, ok := r.fleet.entry(rollout.ParseHostID(hostUUID(0)))
		if !ok || e.Failed.Error != "it broke" || e.Version != "17.2.2" {
			t.Errorf("%+v", e)
		}
	}
	if err := a.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if err := a.fleet.RevokeToken(t.Context(), "all", store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.joins(5, token, secretOf(5), "dev"); status != http.StatusUnauthorized {
		t.Errorf("a token that was revoked elsewhere: %d", status)
	}
	if status, _ := b.says(0, "dev", "17.2.2", nil); status != http.StatusUnauthorized {
		t.Errorf("a host that was revoked elsewhere: %d", status)
	}
	// Who was seen by one is known to the other.
	a.joined(a.token("more"), "dev", 1, 2)
	clock.pass(2 * time.Minute)
	a.said(1, "dev", "17.2.0", nil)
	for _, r := range []*reportWorld{a, b} {
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e, _ := b.fleet.entry(rollout.ParseHostID(hostUUID(1))); !e.LastSeen.Equal(clock.Now()) || e.Sequence != 1 {
		t.Errorf("%+v", e)
	}
}

// A report that cannot be kept is not acknowledged, and is kept once that is possible.
func TestAReportThatCannotBeKeptIsRefused(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), &failingStore{Store: w.store})
	failing := r.fleet.opts.Store.(*failingStore)
	r.joined(r.token("all"), "dev", 0)
	r.said(0, "dev", "17.2.0", nil)
	failing.fail = true
	if status, said := r.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke")); status != http.StatusServiceUnavailable || !strings.Contains(said.Error, "no space") {
		t.Errorf("%d %+v", status, said)
	}
	if status, _ := r.says(0, "dev", "17.2.0", failedAt("17.2.1", "it broke")); status != http.StatusServiceUnavailable {
		t.Errorf("the same again is acknowledged: %d", status)
	}
	r.clock.pass(4 * time.Minute)
	if err := r.fleet.Tick(t.Context()); err == nil {
		t.Error("the store is not missed")
	}
	failing.fail = false
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = r.again(w.other)
	if e, _ := r.fleet.entry(rollout.ParseHostID(hostUUID(0))); e.Failed.Error != "it broke" {
		t.Errorf("%+v", e)
	}
}

type failingStore struct {
	store.Store
	fail bool
}

func (s *failingStore) Commit(ctx context.Context, c store.Change) ([]store.Revision, error) {
	if s.fail {
		return nil, fmt.Errorf("no space is left")
	}
	return s.Store.Commit(ctx, c)
}

// A host that reports all the time is not heard more often for it.
func TestAHostThatReportsAllTheTime(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1)
	var taken []int
	for range 2 {
		count := 0
		for range 100 {
			if status, _ := r.says(0, "dev", "17.2.0", nil); status == http.StatusOK {
				count++
			} else if status != http.StatusTooManyRequests {
				t.Fatal(status)
			}
		}
		taken = append(taken, count)
		r.clock.pass(time.Minute)
	}
	if !slices.Equal(taken, []int{maxBurst, maxBurst}) {
		t.Errorf("taken: %v", taken)
	}
	r.said(1, "dev", "17.2.0", nil)
}

// Hosts that are gone are forgotten, in memory and in the store.
func TestHostsThatAreGoneAreForgotten(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1, 2)
	r.said(0, "dev", "17.2.0", nil)
	r.said(1, "dev", "17.2.0", nil)
	r.clock.pass(HostLife - time.Hour)
	r.said(1, "dev", "17.2.0", nil)
	r.clock.pass(2 * time.Hour)
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	items, _, err := w.other.List(t.Context(), hostPrefix)
	if err != nil || len(items) != 1 || items[0].Key != hostKey(rollout.ParseHostID(hostUUID(1))) || r.fleet.Len() != 1 {
		t.Errorf("%v, %v, %d in memory", items, err, r.fleet.Len())
	}
	r.said(1, "dev", "17.2.0", nil)
}
