package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page/pagetest"
)

// has reports what a page lacks.
func has(t *testing.T, what, page string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(page, want) {
			t.Errorf("%s does not say %q:\n%s", what, want, page)
		}
	}
}

func TestTheViewsShowTheRollout(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.as(adminapi.Viewer)
	for path, wanted := range map[string][]string{
		Path: {
			`data-state="updating"`, "17.2.0 → <strong>17.2.1</strong>", `href="/ui/hosts?group=dev"`, "<p>1 of 4 hosts", "1 failed",
			`<rect class="done" x="0" y="0" width="25"`, `<rect class="failed"`, "the agent did not become healthy: exit status 7",
			"starts Mon 2025-06-02 14:00 UTC", "<code>teleport-find rollout back dev</code>: tells 1 host to go back to 17.2.0", "viewer (viewer)",
		},
		Path + "hosts":                          {"web-0", "web-5", "on target", `<option value="failed">failed</option>`},
		Path + "hosts?state=failed":             {"web-1", "17.2.1: the agent did not become healthy"},
		Path + "hosts?group=prod":               {"web-4", "web-5"},
		Path + "hosts?hostname=web-3":           {pagetest.HostID(3)},
		Path + "hosts?version=17.2.1":           {"web-0"},
		Path + "hosts?group=none":               {"There is no such host."},
		Path + "hosts/" + pagetest.HostID(1):    {"The host is in group dev.", "The rule is:", "failed to update to 17.2.1", "exit status 7", "<dt>Hostname</dt><dd>web-1</dd>"},
		Path + "history":                        {"token add all", "uid 0", "engine", "dev unstarted → active"},
		Path + "hosts/00000000-dead-beef":       {"no host"},
		Path + "nowhere":                        {"There is no such page."},
		Path + "static/style.css":               {"prefers-color-scheme: dark"},
		Path + "hosts?state=nonsense":           {"is not one of"},
		Path + "hosts?hostname=web-3&group=dev": {pagetest.HostID(3)},
	} {
		status, page := b.get(path)
		has(t, path, page, wanted...)
		if want := map[bool]int{true: 200, false: status}[status < 400]; status != want || status >= 500 {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if _, page := b.get(Path + "hosts?group=prod"); strings.Contains(page, "web-0") {
		t.Error("the hosts of prod have one of dev")
	}
}

// A row a group, the groups with trouble first, and the first answers are above them.
func TestFiftyGroups(t *testing.T) {
	w := served(t, pagetest.FiftyGroups(t))
	_, text := w.as(adminapi.Operator).get(Path)
	has(t, Path, text, "Yes: 1 of 50 groups is halted.", "50 groups</a>", "1 halted</a>", "20 updating</a>", "20 waiting</a>", "9 done</a>",
		`<a href="/ui/act?group=edge-06&amp;verb=back">Roll back edge-06</a>: ends it, and 3 hosts stay on 17.2.0`, "<strong>Nothing</strong>: its hosts stay as they are")
	rows := strings.Split(text, `<th scope="row">`)[1:]
	var order []string
	for _, row := range rows {
		name, rest, _ := strings.Cut(strings.TrimPrefix(row, `<a href="/ui/hosts?group=`), `"`)
		order = append(order, name)
		if menus := strings.Count(rest, "<summary>"); menus != 1 || strings.Contains(rest, "<button") {
			t.Errorf("%s has %d menus", name, menus)
		}
	}
	if len(order) != 50 || order[0] != "edge-06" || order[1] != "edge-10" || order[21] != "edge-30" || order[41] != "edge-00" {
		t.Errorf("the rows are %q", order)
	}
	if buttons := strings.Count(text, "<button"); buttons != 2 {
		t.Errorf("there are %d buttons; want one to sign out, and one to filter", buttons)
	}
	for path, want := range map[string]int{Path + "?show=halted": 1, Path + "?show=done": 9, Path + "?group=edge-1": 10, Path + "?show=waiting&group=edge-4": 10, Path + "?show=none": 0} {
		if _, text := w.as(adminapi.Viewer).get(path); strings.Count(text, `<th scope="row">`) != want || want == 0 && !strings.Contains(text, "No group is like that.") {
			t.Errorf("%s has %d rows; want %d", path, strings.Count(text, `<th scope="row">`), want)
		}
	}
}

// Each host is on one page, in the order of their ids, and no page has more than it should.
func TestAListOfHostsHasPages(t *testing.T) {
	w := served(t, pagetest.New(t))
	const hosts = 2*hostsShown + 7
	for i := range hosts {
		w.Fleet.Take(rollout.Heartbeat{HostID: pagetest.HostID(i), Group: "dev", Version: "17.2.0", Hostname: fmt.Sprint("web-", i)}, w.Clock())
	}
	b := w.as(adminapi.Viewer)
	seen, last, pages := map[string]bool{}, "", 0
	for path := Path + "hosts?group=dev"; path != ""; pages++ {
		_, text := b.get(path)
		count := 0
		for _, part := range strings.Split(text, `<a href="/ui/hosts/`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			if seen[id] || id <= last {
				t.Fatalf("%s comes after %s, seen before: %t", id, last, seen[id])
			}
			seen[id], last = true, id
			count++
		}
		if count > hostsShown || count == 0 {
			t.Fatalf("a page has %d hosts", count)
		}
		_, next, more := strings.Cut(text, `rel="next"`)
		_ = next
		path = ""
		if more {
			before, _, _ := strings.Cut(text, `" rel="next"`)
			path = strings.ReplaceAll(before[strings.LastIndex(before, `href="`)+6:], "&amp;", "&")
		}
	}
	if len(seen) != hosts || pages != 3 {
		t.Errorf("%d hosts on %d pages", len(seen), pages)
	}
}

// What a host says of itself, and what people wrote, drives no browser: it is text, of one line, without characters
// that hide or turn round what somebody reads.
func TestTextOfOthersIsShownAsText(t *testing.T) {
	w := served(t, pagetest.New(t))
	const evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.exe\x1b[2J{{.}}"
	w.Joined(0, "dev", "web-0")
	report := func() {
		w.Said(0, "dev", "<script>alert(3)</script>", "17.2.0", pagetest.FailedWith("17.2.1", evil))
	}
	for range 6 {
		w.Said(0, "dev", "web-0", "17.2.0", nil)
		w.Pass(10 * time.Minute)
	}
	w.Apply(fmt.Sprintf(pagetest.ConfigText, pagetest.DevProd), pagetest.Version)
	w.Tick()
	w.Tick()
	w.Pass(time.Minute)
	report()
	w.Tick()
	b := w.as(adminapi.Admin)
	shown := 0
	for _, path := range []string{
		Path, Path + "hosts", Path + "hosts?state=failed", Path + "hosts/" + pagetest.HostID(0), Path + "history",
		Path + "hosts?group=%3Cscript%3Ealert(4)%3C/script%3E&hostname=%22onfocus=alert(5)", Path + "hosts/%3Cscript%3E", Path + "login?to=javascript:alert(6)",
	} {
		_, page := b.get(path)
		lower := strings.ToLower(page)
		for _, bad := range []string{"<script>", "<img", "\u202e", "\x1b", `"onfocus`, `"javascript:`, "onerror=alert(2)>"} {
			if strings.Contains(lower, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
		if strings.Contains(page, "&lt;script&gt;") {
			shown++
		}
	}
	if shown < 4 {
		t.Errorf("only %d views show the words: this shows little", shown)
	}
}

// Tokens, secrets and passwords are in no view.
func TestNoViewHoldsASecret(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.as(adminapi.Admin)
	for _, path := range []string{Path, Path + "hosts", Path + "hosts/" + pagetest.HostID(0), Path + "history", Path + "login"} {
		_, page := b.get(path)
		for what, secret := range map[string]string{"join token": w.Join, "access token": w.Tokens[adminapi.Admin], "host's secret": pagetest.SecretOf(0)} {
			if strings.Contains(page, secret) {
				t.Errorf("%s holds the %s", path, what)
			}
		}
	}
	for _, secret := range []string{w.Join, w.Tokens[adminapi.Admin], pagetest.SecretOf(0)} {
		if strings.Contains(w.Log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}
}

// All of it comes from this server, nothing inline, and no cache keeps it.
func TestEachAnswerForbidsWhatComesFromElsewhere(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.as(adminapi.Admin)
	for _, path := range []string{"/", Path, Path + "hosts", Path + "hosts/" + pagetest.HostID(0), Path + "history", Path + "login", Path + "none", Path + "static/style.css"} {
		resp, page := b.send(http.MethodGet, path, nil, nil)
		csp := resp.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "data:") ||
			!strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "base-uri 'none'") || !strings.Contains(csp, "form-action 'self'") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: the headers are %v", path, resp.Header)
		}
		for _, bad := range []string{" style=", "<style", " onclick", "http://", "https://", `src="//`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
	}
}

// A server that takes no reports, or has no version, has a page all the same.
func TestAServerWithoutAVersion(t *testing.T) {
	w := served(t, pagetest.New(t))
	w.Tick()
	b := w.as(adminapi.Viewer)
	status, page := b.get(Path)
	has(t, Path, page, "No version is set")
	if status != http.StatusOK {
		t.Errorf("it answers %d", status)
	}
}

func TestABarIsFullWithTheLastHostOnly(t *testing.T) {
	for _, tc := range []struct {
		present, done, moving, failed int
		want                          string
	}{
		{0, 0, 0, 0, ""}, {1000, 0, 0, 0, ""}, {1000, 1, 0, 0, "done 0+1"}, {1000, 999, 0, 0, "done 0+99"}, {1000, 1000, 0, 0, "done 0+100"},
		{1000, 999, 0, 1, "done 0+99 failed 99+1"}, {4, 1, 2, 1, "done 0+25 moving 25+50 failed 75+25"}, {4, 4, 3, 9, "done 0+100"},
	} {
		var got []string
		for _, s := range barOf(rollout.GroupOverview{Present: tc.present, UpToDate: tc.done, Updating: tc.moving, Failed: tc.failed}) {
			got = append(got, fmt.Sprintf("%s %d+%d", s.Class, s.At, s.Wide))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
