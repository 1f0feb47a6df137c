//go:build hosts

package page

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page"
	"teleport-update/find/server/page/pagetest"
)

// night is whether each view is looked at in all its looks, and ten thousand hosts are made up.
var night = os.Getenv("FAULTS") == "all"

// views are all that somebody who is signed in can look at.
var views = map[string]string{
	"rollout": page.Path, "hosts": page.Path + "hosts", "host": page.Path + "hosts/" + pagetest.HostID(1), "failing": page.Path + "hosts?state=failed",
	"history": page.Path + "history", "act": page.Path + "act?verb=back&group=dev", "problem": page.Path + "nowhere",
}

// Each view, by day and by night, at a desk and on a phone: it breaks no rule of axe-core, fits its window and stays at home.
func TestEachViewIsAccessible(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.visit(page.Path + "login")
	b.light("light", 1280)
	b.accessible("login")
	b.signIn(w, adminapi.Operator)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			if !night && (scheme == "dark") != (width == 390) {
				continue
			}
			b.light(scheme, width)
			for name, path := range views {
				if !night && scheme == "dark" && name != "rollout" && name != "act" {
					continue
				}
				what := fmt.Sprintf("%s, %s, %d pixels", name, scheme, width)
				b.visit(path)
				b.accessible(what)
				b.fits(what)
				b.picture(fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
	}
	b.harmless()
}

// The browser's choice of dark and light is followed, and what is said by colour is said in words, too.
func TestDarkAndLight(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Viewer)
	paper := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.light(scheme, 1280)
		paper[scheme] = value[string](b, "getComputedStyle(document.documentElement).backgroundColor")
	}
	if paper["light"] != "rgb(255, 255, 255)" || paper["dark"] == paper["light"] {
		t.Errorf("the papers are %v", paper)
	}
	b.says("updating", "active", "1 of 4 hosts on 17.2.1", "1 failed")
}

// A button by the keyboard alone: from the first key to the audit list, without a mouse.
func TestTheKeyboardIsEnough(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Operator)
	seen := map[string]bool{}
	b.keys("\t")
	if first := value[string](b, "document.activeElement.textContent"); first != "Skip to the content" {
		t.Errorf("the first stop is %q", first)
	}
	for !strings.HasPrefix(value[string](b, "document.activeElement.textContent"), "Roll back") {
		if ring := value[string](b, "getComputedStyle(document.activeElement).outlineStyle"); ring == "none" {
			t.Errorf("nobody sees that the focus is on %s", value[string](b, "document.activeElement.outerHTML"))
		}
		at := value[string](b, "document.activeElement.outerHTML")
		if seen[at] && len(seen) > 100 {
			t.Fatal("there is no way to the button")
		}
		seen[at] = true
		b.keys("\t")
	}
	b.keys("\r")
	b.until("what the button changes is shown", `document.title.startsWith("Roll back: dev")`)
	b.says("Group dev goes from active to rolledback", "go back to 17.2.0")
	for value[string](b, "document.activeElement.id") != "reason" {
		b.keys("\t")
	}
	b.keys("it breaks hosts")
	b.keys("\t")
	b.keys("\r")
	b.until("it was done", `document.querySelector("[role=status]")`)
	b.says("Done: Roll back dev", "rolledback")
	b.visit(page.Path + "history")
	b.says("token operator", "rollout back dev", "it breaks hosts")
	b.harmless()
}

// A reason is asked for before anything is sent.
func TestTheBrowserAsksForAReason(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Operator)
	b.visit(page.Path + "act?verb=suspend")
	value[bool](b, `document.querySelector("main form button").click() || true`)
	if value[bool](b, `document.getElementById("reason").validity.valid`) {
		t.Error("an empty reason is valid")
	}
	b.says("Updates go from enabled to suspended.")
	if mode := w.Stored.Resources().Config.Spec.Agents.Mode; mode != rollout.Enabled {
		t.Errorf("updates are %s", mode)
	}
}

// Names and errors that want to be code: no dialog, no error, no request to anybody else.
func TestHostileWordsDoNothingInABrowser(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)><svg/onload=alert(3)>` + "\u202e\u200b"
	w := pagetest.Started(t, pagetest.DevProd)
	for i := range 4 {
		w.Said(i, "dev", `<img/src=x/onerror=alert(4)>`, "17.2.0", func(h *find.Heartbeat) {
			pagetest.FailedWith("17.2.1", evil)(h)
			h.Edition = `<b>oss`
		})
	}
	w.Tick()
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Operator)
	for name, path := range views {
		b.visit(path)
		if n := value[int](b, `document.querySelectorAll("main img, main script, main svg:not(.bar), main b").length`); n > 0 {
			t.Errorf("%s: %d elements are a host's", name, n)
		}
	}
	b.visit(page.Path + `hosts?hostname="><script>alert(5)</script>&state=failed`)
	b.visit(page.Path)
	b.says(`<script>alert(1)</script>`)
	b.picture("hostile")
	b.harmless()
}

// Without JavaScript everything works but the refreshing by itself.
func TestWithoutJavaScript(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.withoutScripts()
	b.signIn(w, adminapi.Operator)
	for _, path := range views {
		b.visit(path)
	}
	b.visit(page.Path)
	w.Said(2, "dev", "web-2", "17.2.1", nil)
	w.Tick()
	b.says("1 of 4 hosts on 17.2.1")
	value[bool](b, `[...document.querySelectorAll("footer a")].at(-1).click() || true`)
	b.until("it was refreshed", `document.body.innerText.includes("2 of 4 hosts on 17.2.1")`)
	b.visit(page.Path + "act?verb=done&group=dev")
	value[bool](b, `document.getElementById("reason").focus() || true`)
	b.keys("enough of them\t\r")
	b.until("it was done", `document.querySelector("[role=status]")`)
	b.says("Done: Mark done dev")
	value[bool](b, `document.querySelector(".who button").click() || true`)
	b.until("signed out", `document.getElementById("token")`)
	b.harmless()
}

// The page looks again by itself, and leaves those alone who are at it.
func TestThePageRefreshesItself(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Viewer)
	b.says("1 of 4 hosts on 17.2.1")
	w.Said(2, "dev", "web-2", "17.2.1", nil)
	w.Tick()
	b.until("the script has looked again", `document.body.innerText.includes("2 of 4 hosts on 17.2.1")`)
	b.harmless()
}

// Ten thousand hosts, of which hundreds failed: each page is as long as another.
func TestTenThousandHosts(t *testing.T) {
	if !night {
		t.Skip("make test-nightly has ten thousand hosts")
	}
	w := pagetest.Rolling(t)
	for i := range 10_000 {
		h := rollout.Heartbeat{HostID: pagetest.HostID(100 + i), Group: pagetest.GroupOf(i % 6), Version: "17.2.0", Hostname: fmt.Sprint("node-", i)}
		if i%20 == 0 {
			h.Outcome = &rollout.Outcome{Target: "17.2.1", State: rollout.OutcomeFailed, Error: "it broke", Time: w.Clock()}
		}
		w.Fleet.Take(h, w.Clock())
	}
	w.Pass(2 * time.Minute)
	w.Everybody("17.2.0")
	w.Tick()
	b := open(t, served(t, w))
	b.light("light", 390)
	b.signIn(w, adminapi.Viewer)
	b.fits("the rollout")
	b.picture("ten-thousand-390")
	b.light("dark", 1280)
	b.visit(page.Path + "hosts")
	pages := 1
	for value[bool](b, `!!document.querySelector("a[rel=next]")`) && pages < 4 {
		if n := value[int](b, `document.querySelectorAll("tbody tr").length`); n != 100 {
			t.Errorf("page %d has %d hosts", pages, n)
		}
		first := value[string](b, `document.querySelector("tbody a").href`)
		value[bool](b, `document.querySelector("a[rel=next]").click() || true`)
		b.until("the next page", fmt.Sprintf(`document.querySelector("tbody a") && document.querySelector("tbody a").href > %q`, first))
		pages++
	}
	if pages != 4 {
		t.Errorf("there are %d pages", pages)
	}
	b.fits("hosts")
	b.picture("ten-thousand-hosts")
	b.accessible("ten thousand hosts")
	b.harmless()
}
