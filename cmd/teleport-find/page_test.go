package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page is on the admin listener, for the holders of access tokens, and nowhere else: no other listener has it.
func TestThePageIsOnTheAdminListenerAlone(t *testing.T) {
	dir := t.TempDir()
	p := serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"),
		"--admin-socket", filepath.Join(dir, "admin.sock"), "--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	k := &kept{t: t, dir: dir, server: p}
	access := regexp.MustCompile(`\S{20,}`).FindString(k.must("token", "add", "eyes", "--role", "viewer"))
	k.must("set-version", "15.2.0", "--schedule", "immediate")
	at := "http://" + p.logged(`msg="serving the admin API and the page.*" address=(\S+)`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	answer := func(resp *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, text := answer(client.Get(at + "/")); code != http.StatusOK || !strings.Contains(text, `type="password"`) {
		t.Errorf("before signing in: %d %s", code, text)
	}
	if code, text := answer(client.PostForm(at+"/ui/login", url.Values{"token": {access}, "to": {"/ui/"}})); code != http.StatusOK ||
		!strings.Contains(text, "Updates are disabled: no host updates by itself") {
		t.Errorf("signed in: %d %s", code, text)
	}
	if code, _ := answer(client.Get(at + "/v1/overview")); code != http.StatusUnauthorized {
		t.Errorf("the admin API with the cookie: %d", code)
	}
	for name, url := range map[string]string{"hosts": p.url, "metrics": metricsOf(t, p)} {
		if code, _ := answer(client.Get(url + "/ui/")); code != http.StatusNotFound {
			t.Errorf("the listener for %s has a page: %d", name, code)
		}
	}
	if strings.Contains(p.log.String(), access) {
		t.Error("the log holds the access token")
	}
}
