package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/store"
)

// Each of these is refused with a clear error, and changes nothing, in memory or in
// the store.
func TestHostileReportsChangeNothing(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token, devToken := r.token("all"), r.token("dev-only", "dev")
	revoked := r.token("old")
	if _, err := r.fleet.RevokeToken(t.Context(), "old", false, store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	expired, err := r.fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: "short", ExpiresIn: "1s"}, store.Audit{Who: "uid 0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	r.clock.pass(2 * time.Second)
	r.joined(token, "dev", 0, 1, 2)
	r.joined(devToken, "dev", 3)
	r.said(0, "dev", "17.2.0", nil)
	r.said(1, "dev", "17.2.0", nil)
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(2)), store.Audit{Who: "uid 0"}, false); err != nil {
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
	if len(cases) < 120 { // and 80 resources
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
