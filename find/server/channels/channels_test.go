package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
)

// groupsOf is a GroupSource whose groups have what a test says.
type groupsOf map[string]struct {
	version  string
	critical bool
}

func (g groupsOf) Channel(group string) (string, bool) { return g[group].version, g[group].critical }

func (g groupsOf) Window(group string) (rollout.Window, bool) {
	_, ok := g[group]
	return rollout.Window{Days: []rollout.Day{"Mon"}, Hour: 13, Length: time.Hour}, ok
}

var twoGroups = groupsOf{"": {"17.2.0", false}, "dev": {"17.2.1", true}, "empty": {"", true}}

// respond is an http.RoundTripper.
type respond func(*http.Request) (*http.Response, error)

func (f respond) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func said(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

func newTestChannels(t *testing.T, file string, upstream respond) (*Channels, error) {
	t.Helper()
	opts := ChannelsOptions{Groups: twoGroups, HTTP: &http.Client{Transport: upstream}, Log: slog.New(slog.DiscardHandler)}
	if file != "" {
		opts.File = filepath.Join(t.TempDir(), "channels.yaml")
		if err := os.WriteFile(opts.File, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewChannels(opts)
}

func ask(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestWhatUpdatersOfRFD0109AreTold(t *testing.T) {
	channels, err := newTestChannels(t, `
stable/cloud: {version: v15.1.1, critical: true}
cloud-stable: {version: 15.1.2}
edge: {group: dev}
nothing: {group: empty}
up: {forward: "https://updates.example/v1/stable/cloud/"}
gone: {forward: "https://gone.example/v1/x"}
`, func(r *http.Request) (*http.Response, error) {
		switch r.URL.String() {
		case "https://updates.example/v1/stable/cloud/version":
			return said(200, "v16.0.0\n")
		case "https://updates.example/v1/stable/cloud/critical":
			return said(200, "yes\n")
		}
		return said(404, "15.0.0")
	})
	if err != nil {
		t.Fatal(err)
	}
	h := http.NewServeMux()
	channels.Register(h)
	for path, want := range map[string]string{
		"/v1/stable/cloud/version":  "200 15.1.1",
		"/v1/stable/cloud/critical": "200 yes",
		"/v1/cloud-stable/version":  "200 15.1.2",
		"/v1/cloud-stable/critical": "200 no",
		"/v1/edge/version":          "200 17.2.1",
		"/v1/edge/critical":         "200 yes",
		"/v1/nothing/version":       "404 ",
		"/v1/nothing/critical":      "200 yes",
		"/v1/default/version":       "200 17.2.0",
		"/v1/default/critical":      "200 no",
		"/v1/up/version":            "200 16.0.0",
		"/v1/up/critical":           "200 yes",
		"/v1/gone/version":          "404 ",
		"/v1/gone/critical":         "200 no",
		"/v1/webapi/automaticupgrades/channel/default/version":       "200 17.2.0",
		"/v1/webapi/automaticupgrades/channel/stable/cloud/version":  "200 15.1.1",
		"/v1/webapi/automaticupgrades/channel/stable/cloud/critical": "200 yes",
		"/v1/stable%2Fcloud/version":                                 "200 15.1.1",
		"/v1/other/version":                                          "404 ",
		"/v1/stable/version":                                         "404 ",
		"/v1/default/versions":                                       "404 ",
		"/v1/default":                                                "404 ",
		"/v1/version":                                                "404 ",
		"/v1//version":                                               "",
		"/v1/../etc/passwd/version":                                  "",
		"/v1/webapi/automaticupgrades/channel/version":               "404 ",
		"/v1/webapi/maintenance?group=dev":                           "200 Mon *-*-* 13:00,10,20,30,40,50:00 UTC\n",
		"/v1/webapi/maintenance?group=dev&kind=systemd_timer":        "200 Mon *-*-* 13:00,10,20,30,40,50:00 UTC\n",
		"/v1/webapi/maintenance?kind=kube_controller":                "400 ",
		"/v1/webapi/maintenance?group=typo":                          "404 ",
	} {
		status, body := ask(h, path)
		if got := fmt.Sprintf("%d %s", status, body); want != "" && !strings.HasPrefix(got, want) || strings.HasPrefix(want, "200") && got != want || want == "" && status == 200 {
			t.Errorf("%s: %q; want %q", path, got, want)
		}
	}
}

// A file with an error in it is refused, and names the line.
func TestChannelsFilesThatAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"empty", "\n", "it is empty"},
		{"a list", "- default", "want a mapping of channel names"},
		{"a channel that says nothing", "a: {}", "give one of version, group and forward"},
		{"a channel that says nothing at all", "a:", "want a mapping of settings"},
		{"two at once", "a: {version: 15.1.1, group: dev}", "give one of version, group and forward"},
		{"critical alone", "a: {critical: true}", "give one of"},
		{"critical of a group", "a: {group: dev, critical: true}", "critical goes with version only"},
		{"an unknown field", "a: {versions: 15.1.1}", `line 1: unknown field "versions"`},
		{"no version", "a: {version: latest}", "version"},
		{"critical, perhaps", "a: {version: 15.1.1, critical: maybe}", "is not true or false"},
		{"no value", "a: {version: }", "is not a single value"},
		{"twice", "a: {version: 15.1.1}\na: {version: 15.1.2}", "appears twice"},
		{"plain http", "a: {forward: 'http://updates.example/v1/a'}", "use https"},
		{"another scheme", "a: {forward: 'file:///etc/passwd'}", "must be https"},
		{"a query", "a: {forward: 'https://updates.example/v1/a?b'}", "without a query"},
		{"no URL", "a: {forward: ':'}", "it is not a URL"},
		{"no name", "'': {version: 15.1.1}", "1 to 128 characters"},
		{"a long name", strings.Repeat("a", 129) + ": {version: 15.1.1}", "1 to 128 characters"},
		{"a name that leads out", "../a: {version: 15.1.1}", "must not begin with a dot"},
		{"a name that is hidden", "a/.b: {version: 15.1.1}", "must not begin with a dot"},
		{"a name with an empty part", "a//b: {version: 15.1.1}", "parts of a name"},
		{"a name that ends in a slash", "a/: {version: 15.1.1}", "parts of a name"},
		{"a name with a space", "a b: {version: 15.1.1}", "parts of a name"},
		{"a name with a control character", `"a\u0007": {version: 15.1.1}`, "parts of a name"},
		{"the name of a question", "a/version: {version: 15.1.1}", "cannot be part of a name"},
		{"the name of another endpoint", "webapi/a: {version: 15.1.1}", "belong to other endpoints"},
		{"aliases without end", "a: &a {b: *a}", ""},
		{"too much", "a: {version: 15.1.1} #" + strings.Repeat("x", parts.MaxWatched), "larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := newTestChannels(t, tc.file, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it says %v; want %s", err, tc.want)
			}
		})
	}
}

// An edit with an error in it changes nothing, and no edit forgets what was forwarded.
func TestAnEditOfTheChannels(t *testing.T) {
	ok := true
	channels, err := newTestChannels(t, "up: {forward: 'https://updates.example/v1/a'}\nold: {version: 15.1.1}", func(*http.Request) (*http.Response, error) {
		if ok {
			return said(200, "16.0.0")
		}
		return nil, errors.New("no network")
	})
	if err != nil {
		t.Fatal(err)
	}
	h := http.NewServeMux()
	channels.Register(h)
	want := func(path, want string) {
		t.Helper()
		if status, body := ask(h, path); fmt.Sprint(status, " ", body) != want && !strings.HasPrefix(fmt.Sprint(status, " ", body), want+" ") {
			t.Errorf("%s: %d %s; want %s", path, status, body, want)
		}
	}
	want("/v1/up/version", "200 16.0.0")
	ok = false
	if err := os.WriteFile(channels.opts.File, []byte("old: {versions: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := channels.Reload(); err == nil {
		t.Error("an edit with an error is taken")
	}
	want("/v1/old/version", "200 15.1.1")
	if err := os.WriteFile(channels.opts.File, []byte("renamed: {forward: 'https://updates.example/v1/a'}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := channels.Reload(); err != nil {
		t.Fatal(err)
	}
	want("/v1/renamed/version", "200 16.0.0")
	want("/v1/old/version", "404")
}

// What another server says is asked for once a minute, whoever asks, and kept while it
// says nothing.
func TestAForwardedChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := 0
		answer := func(r *http.Request) (*http.Response, error) { return said(200, "16.0.0") }
		channels, err := newTestChannels(t, "up: {forward: 'https://updates.example/v1/a'}", func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			if strings.HasSuffix(r.URL.Path, "/version") {
				asked++
			}
			current := answer
			mu.Unlock()
			return current(r)
		})
		if err != nil {
			t.Fatal(err)
		}
		f := (*channels.current.Load())["up"].forward
		want := func(version string, looks int) {
			t.Helper()
			begin := time.Now()
			if got := f.get(t.Context()); got.version != version || asked != looks {
				t.Errorf("it says %q after %d looks; want %q after %d", got.version, asked, version, looks)
			}
			if took := time.Since(begin); took > forwardTime {
				t.Errorf("an updater waits for %s", took)
			}
		}
		change := func(f func(*http.Request) (*http.Response, error)) {
			mu.Lock()
			defer mu.Unlock()
			answer = f
		}
		want("16.0.0", 1)
		change(func(*http.Request) (*http.Response, error) { return said(200, "16.0.1") })
		want("16.0.0", 1)
		time.Sleep(59 * time.Second)
		want("16.0.0", 1)
		time.Sleep(time.Second)
		want("16.0.1", 2)

		looks, taken := 2, 0
		for name, bad := range map[string]func(*http.Request) (*http.Response, error){
			"no network":     func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") },
			"an error":       func(*http.Request) (*http.Response, error) { return said(500, "16.0.2") },
			"not there":      func(*http.Request) (*http.Response, error) { return said(404, "") },
			"empty":          func(*http.Request) (*http.Response, error) { return said(200, "") },
			"a page":         func(*http.Request) (*http.Response, error) { return said(200, "<html>16.0.2</html>") },
			"no version":     func(*http.Request) (*http.Response, error) { return said(200, "latest") },
			"two versions":   func(*http.Request) (*http.Response, error) { return said(200, "16.0.2\n16.0.3") },
			"without an end": func(*http.Request) (*http.Response, error) { return said(200, strings.Repeat("1", 1<<20)) },
			"hangs":          func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
			"an endless body": func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: hang{r.Context()}}, nil
			},
			"a flood": func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: flood{&taken}}, nil
			},
			"control sequence": func(*http.Request) (*http.Response, error) { return said(200, "16.0.2\x1b[2J") },
		} {
			change(bad)
			time.Sleep(forwardFor)
			looks++
			want("16.0.1", looks)
			want("16.0.1", looks)
			if list := channels.List(t.Context()); list[1].Error == "" || list[1].Version != "16.0.1" || list[1].Age < 60 {
				t.Errorf("%s: the list says %+v", name, list[1])
			}
		}

		if taken > 64<<10 {
			t.Errorf("%d bytes were read of an answer without an end", taken)
		}

		// A thousand updaters at once are one look.
		change(func(*http.Request) (*http.Response, error) { time.Sleep(time.Second); return said(200, "16.1.0") })
		time.Sleep(forwardFor)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if got := f.get(t.Context()).version; got != "16.1.0" {
					t.Errorf("one is told %s", got)
				}
			})
		}
		all.Wait()
		want("16.1.0", looks+1)

		// Who goes away does not take the look of the others along.
		time.Sleep(forwardFor)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := f.get(gone).version; got != "16.1.0" {
			t.Errorf("who goes away is told %q", got)
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		want("16.1.0", looks+2)
	})
}

// flood is a body without an end, which counts what is taken of it.
type flood struct{ taken *int }

func (f flood) Read(p []byte) (int, error) {
	if *f.taken += len(p); *f.taken > 1<<20 {
		return 0, io.EOF // or a test that fails would not end
	}
	return copy(p, bytes.Repeat([]byte("1"), len(p))), nil
}

func (flood) Close() error { return nil }

// hang is a body that never ends.
type hang struct{ ctx context.Context }

func (h hang) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }

func (hang) Close() error { return nil }
