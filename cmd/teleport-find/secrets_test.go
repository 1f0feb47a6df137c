package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/store/postgres/pgtest"
)

// forms are how a secret may be written: as it is, escaped in a URL, in hex, and in base64
// at any place of what is encoded.
func forms(secret string) map[string]string {
	all := map[string]string{"plain": secret, "URL": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret))}
	for at := range 3 {
		// What shares a group of four with its neighbours is left out.
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", at) + secret))
		first := (at*8 + 5) / 6
		all[fmt.Sprint("base64 at ", at)] = encoded[first : first+len(secret)*8/6-3]
	}
	return all
}

// seenIn returns the forms of secrets that a text has.
func seenIn(text string, secrets map[string]string) (found []string) {
	lower := strings.ToLower(text)
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(text) // base64 of URLs
	for what, secret := range secrets {
		for form, written := range forms(secret) {
			switch {
			case form == "hex" && strings.Contains(lower, written):
			case strings.HasPrefix(form, "base64") && strings.Contains(plain, written):
			case strings.Contains(text, written):
			default:
				continue
			}
			found = append(found, what+" ("+form+")")
		}
	}
	return found
}

func TestSecretsAreFoundInEachForm(t *testing.T) {
	secret := "MARKED/secret+of a host?"
	for _, prefix := range []string{"", "a", "ab", "user:"} {
		for form, text := range map[string]string{
			"base64": base64.StdEncoding.EncodeToString([]byte(prefix + secret + "z")), "URL base64": base64.RawURLEncoding.EncodeToString([]byte(prefix + secret)),
			"hex": fmt.Sprintf("%X", prefix+secret), "query": url.QueryEscape(prefix + secret), "plain": prefix + secret, "path": url.PathEscape(prefix + secret),
		} {
			if len(seenIn("before "+text+" after", map[string]string{"x": secret})) == 0 {
				t.Errorf("%s after %q is not found: %s", form, prefix, text)
			}
		}
	}
	if found := seenIn("MARKED", map[string]string{"x": secret}); found != nil {
		t.Errorf("found is %q", found)
	}
}

// secretive is a server that holds secrets of each kind, and all that it says.
type secretive struct {
	*kept
	admin, metrics string // addresses
	receiver       *httptest.Server
	secrets        map[string]string
	said           map[string]string

	mu     sync.Mutex
	bodies bytes.Buffer // of notifications
	posts  int
}

func (s *secretive) says(where, text string) {
	s.t.Helper()
	if text == "" {
		s.t.Errorf("%s says nothing", where)
	}
	s.said[where] += text + "\n"
}

// command notes what a command prints, whatever becomes of it.
func (s *secretive) command(args ...string) string {
	s.t.Helper()
	out, _ := s.run(args...)
	s.says(strings.Join(args, " "), out)
	return out
}

// made is the token that a command has made and printed: this is the one place where it may be.
func (s *secretive) made(args ...string) string {
	s.t.Helper()
	lines := strings.Fields(s.must(args...))
	return lines[len(lines)-1]
}

func newSecretive(t *testing.T, store, passwordFile string) *secretive {
	s := &secretive{kept: &kept{t: t, dir: t.TempDir()}, said: map[string]string{}, secrets: map[string]string{
		"webhook's password": "MARKED hook/password+1", "webhook's path": "MARKED-hook-path-2", "webhook's query": "MARKED-hook-query-3",
		"webhook's secret": "MARKED secret of a webhook 4", "channel's password": "MARKED-channel-password-5", "host's secret": "MARKED secret of a host 6",
		"a wrong token": "MARKED-wrong-token-0123456789-7",
	}}
	s.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bodies.Write(body)
		s.posts++
		if s.posts%2 == 0 { // and says in its answer what it was asked for
			http.Error(w, r.URL.String()+r.Header.Get("Authorization"), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.receiver.Close)
	channels := filepath.Join(s.dir, "channels.yaml")
	write(t, channels, "stable: {forward: \"https://user:"+s.secrets["channel's password"]+"@127.0.0.1:1/x\"}\n")
	s.server = serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", store, "--store-password-file", passwordFile, "--channels", channels, "--access-log",
		"--admin-socket", filepath.Join(s.dir, "admin.sock"), "--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	s.metrics = metricsOf(t, s.server)
	s.admin = "http://" + s.server.logged(`access token" address=(\S+)`)
	return s
}

// webhooks writes two that work and one that nobody listens for.
func (s *secretive) webhooks() {
	secret := filepath.Join(s.dir, "hook.secret")
	write(s.t, secret, whsec(s.secrets["webhook's secret"])+"\n")
	text := hookGroups
	for name, host := range map[string]string{"good": strings.TrimPrefix(s.receiver.URL, "http://"), "nobody": "127.0.0.1:1"} {
		u := url.URL{Scheme: "http", User: url.UserPassword("u", s.secrets["webhook's password"]), Host: host, Path: "/" + s.secrets["webhook's path"],
			RawQuery: "key=" + s.secrets["webhook's query"]}
		file := filepath.Join(s.dir, name+".url")
		write(s.t, file, u.String()+"\n")
		text += fmt.Sprintf("---\nkind: autoupdate_notify\nmetadata: {name: %s}\nspec: {url_file: %q, secret_file: %q, kinds: [halted, stalled, blocked, done, retried]}\n", name, file, secret)
	}
	resources := filepath.Join(s.dir, "all.yaml")
	write(s.t, resources, text)
	s.command("apply", "-f", resources)
	// A URL with a secret is refused, and not quoted.
	write(s.t, resources, fmt.Sprintf("kind: autoupdate_notify\nmetadata: {name: bad}\nspec: {url: \"https://example.com/?%s\", secret_file: /s, kinds: [done]}\n", s.secrets["webhook's query"]))
	if out := s.command("apply", "-f", resources); !strings.Contains(out, "spec.url_file") {
		s.t.Errorf("a URL with a query: %s", out)
	}
}

// hosts has a host join and report, and others fail to.
func (s *secretive) hosts() {
	s.secrets["join token"] = s.made("tokens", "add", "web")
	id := "00000001-0001-4000-8000-000000000001"
	sum := sha256.Sum256([]byte(s.secrets["host's secret"]))
	r := &reporter{url: s.server.url}
	report := find.Heartbeat{HostID: id, Sequence: 1, Version: "15.1.0", Group: "dev", Outcome: &find.Outcome{Target: "15.2.0", State: "failed", Error: "it failed", Time: time.Unix(1_700_000_000, 0)}}
	for _, post := range []struct {
		path, secret string
		body         any
		want         int
	}{
		{find.JoinPath, s.secrets["a wrong token"], find.Join{HostID: id, SecretHash: hex.EncodeToString(sum[:])}, 401},
		{find.JoinPath, s.secrets["join token"], find.Join{HostID: id, SecretHash: hex.EncodeToString(sum[:])}, 200},
		{find.HeartbeatPath, s.secrets["host's secret"], report, 200},
		{find.HeartbeatPath, s.secrets["a wrong token"], report, 401},
		{find.HeartbeatPath, s.secrets["host's secret"], "nothing", 400},
	} {
		if status, err := r.post(post.path, post.secret, post.body); err != nil || status != post.want {
			s.t.Errorf("%s: %d, %v; want %d", post.path, status, err, post.want)
		}
	}
	s.server.get("/v1/stable/version")
	s.server.get("/v1/webapi/find?host=" + id + "&group=dev")
}

// page signs in at the page for browsers, and looks around.
func (s *secretive) page(token string) {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	for _, token := range []string{s.secrets["a wrong token"], token} {
		form := url.Values{"token": {token}}
		req, err := http.NewRequest(http.MethodPost, s.admin+"/ui/login", strings.NewReader(form.Encode()))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := client.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		s.says("page: login", string(body))
	}
	for _, path := range []string{"", "hosts", "hosts/00000001-0001-4000-8000-000000000001", "history"} {
		resp, err := client.Get(s.admin + "/ui/" + path)
		if err != nil {
			s.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || strings.Contains(resp.Request.URL.Path, "login") {
			s.t.Errorf("page: /ui/%s is %d, %s", path, resp.StatusCode, resp.Request.URL)
		}
		s.says("page: /ui/"+path, string(body))
	}
}

// Marked secrets of each kind are planted, and all that the server and its commands say is searched for them.
func TestNoSecretComesOut(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	password := filepath.Join(t.TempDir(), "password")
	marked := "MARKED password+of/the database 8"
	write(t, password, marked+"\n")
	database.SQL("postgres", "ALTER USER postgres PASSWORD '"+marked+"'")
	s := newSecretive(t, address, password)
	s.secrets["database's password"] = marked
	s.webhooks()
	s.command("set-version", "15.2.0", "--start", "15.1.0", "--reason", "a test")
	s.hosts()
	access := s.made("token", "add", "ops", "--role", "admin")
	s.secrets["access token"] = access
	file, wrong := filepath.Join(s.dir, "access"), filepath.Join(s.dir, "wrong")
	writeSecret(t, file, access+"\n")
	writeSecret(t, wrong, s.secrets["a wrong token"]+"\n")
	s.command("notify", "test", "good")
	s.command("notify", "test", "nobody")
	s.command("--server", s.admin, "--access-token-file", file, "rollout", "done", "dev", "--reason", "a test")
	s.command("--server", s.admin, "--access-token-file", wrong, "status")
	s.command("--server", s.admin, "--access-token-file", file, "rollout", "back")
	s.until("the webhook that nobody listens for fails", func() bool { return strings.Contains(s.must("status"), "refused") })
	s.page(access)
	for _, command := range []string{
		"status", "status -o json", "get", "get -o json", "get autoupdate_notify/good", "hosts -o json", "hosts 00000001-0001-4000-8000-000000000001 -o json",
		"history -o json", "token -o json", "channels -o json",
	} {
		s.command(strings.Fields(command)...)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		_, text := scrape(t, s.metrics+path)
		s.says(path, text)
	}
	s.command("backup", filepath.Join(s.dir, "b.db"), "--store", address, "--store-password-file", password)
	s.command("restore", filepath.Join(s.dir, "b.db"), "--store", address, "--store-password-file", password)
	s.command("restore", filepath.Join(s.dir, "b.db"), "--store", filepath.Join(s.dir, "copy.db"))
	// What is said while the database is away, and of a password that does not hold any more.
	database.Kill()
	s.command("mode", "suspended", "--reason", "a test")
	s.command("status")
	_, ready := scrape(t, s.metrics+"/readyz")
	s.says("/readyz without a database", ready)
	database.Boot()
	s.server.stop(os.Interrupt)
	s.says("log", s.server.log.String())
	s.says("output", s.server.out.String())
	s.says("notifications", s.bodies.String())
	backup, err := os.ReadFile(filepath.Join(s.dir, "b.db"))
	if err != nil {
		t.Fatal(err)
	}
	s.says("the backup itself", string(backup))
	if !json.Valid([]byte(s.said["status -o json"])) || !strings.Contains(s.said["log"], "msg=request") || !strings.Contains(s.said["notifications"], "rollout.done") {
		t.Errorf("the test does not look where it should:\n%s\n%s", s.said["status -o json"], s.said["notifications"])
	}
	for where, text := range s.said {
		for _, found := range seenIn(text, s.secrets) {
			t.Errorf("%s has the %s", where, found)
		}
	}
}

func (s *secretive) until(what string, is func() bool) {
	s.t.Helper()
	s.server.until(what, is)
}
