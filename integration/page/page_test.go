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
	"history": page.Path + "history", "act": page.Path + "act?verb=back&group=dev", "hold": page.Path + "act?verb=hold&host=" + pagetest.HostID(4), "problem": page.Path + "nowhere",
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

// The first screen of fifty groups says whether anything is wrong, since when, and what to do now, on a phone and at a desk. No
// word is broken, and the groups take a few screens.
func TestFiftyGroupsInABrowser(t *testing.T) {
	w := pagetest.FiftyGroups(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Operator)
	for _, look := range []struct {
		scheme  string
		width   int64
		screens int
	}{{"light", 1280, 6}, {"dark", 390, 7}, {"dark", 1280, 6}, {"light", 390, 7}} {
		what := fmt.Sprintf("%s, %d pixels", look.scheme, look.width)
		b.light(look.scheme, look.width)
		b.visit(page.Path)
		seen := value[string](b, visible)
		for _, answer := range []string{
			"Is anything wrong? Yes: 1 of 50 groups is halted. halted Group edge-06 has been halted", "the agent did not become healthy",
			"Since when? Mon 2025-06-02 12:01 UTC", "What now? Nothing : its hosts stay as they are Roll back edge-06 : ends it, and 3 hosts stay on 17.2.0",
			"20 updating",
		} {
			if !strings.Contains(seen, answer) {
				t.Errorf("%s: the first screen does not say %q:\n%s", what, answer, seen)
			}
		}
		if broken := value[[]string](b, brokenWords); len(broken) > 0 {
			t.Errorf("%s: words are broken: %q", what, broken)
		}
		if n := value[float64](b, "document.documentElement.scrollHeight / innerHeight"); n > float64(look.screens) {
			t.Errorf("%s: the page has %.1f screens; want %d", what, n, look.screens)
		}
		b.fits(what)
		b.accessible(what)
		b.picture(fmt.Sprintf("fifty-%s-%d", look.scheme, look.width))
		value[bool](b, `document.querySelector("details summary").click() || true`)
		b.until("the menu is open", `document.querySelector("details[open] a")`)
		b.fits("the menu, " + what)
		b.accessible("the menu, " + what)
		b.picture(fmt.Sprintf("fifty-menu-%s-%d", look.scheme, look.width))
	}
	b.visit(page.Path + "?show=halted")
	if rows := value[int](b, `document.querySelectorAll("tbody tr").length`); rows != 1 {
		t.Errorf("%d rows are halted", rows)
	}
	b.harmless()
}

// visible is the text that the window shows without scrolling.
const visible = `(() => {
	const shown = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
	while (walk.nextNode()) {
		if (!walk.currentNode.parentElement.checkVisibility()) continue;
		range.selectNodeContents(walk.currentNode);
		const box = range.getBoundingClientRect();
		if (box.width > 1 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth) shown.push(walk.currentNode.data);
	}
	return shown.join(" ").replace(/\s+/g, " ");
})()`

// brokenWords are the words that go over more than one line.
const brokenWords = `(() => {
	const broken = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
	while (walk.nextNode()) {
		if (!walk.currentNode.parentElement.checkVisibility()) continue;
		for (const word of walk.currentNode.data.matchAll(/[^\s-]+/g)) {
			range.setStart(walk.currentNode, word.index);
			range.setEnd(walk.currentNode, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) broken.push(word[0]);
		}
	}
	return broken;
})()`

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
	b.says("updating", "active", "1 of 4 hosts", "1 failed")
}

// An order by the keyboard alone: from the first key to the audit list, without a mouse.
func TestTheKeyboardIsEnough(t *testing.T) {
	w := pagetest.Rolling(t)
	b := open(t, served(t, w))
	b.signIn(w, adminapi.Operator)
	seen := map[string]bool{}
	b.keys("\t")
	if first := value[string](b, "document.activeElement.textContent"); first != "Skip to the content" {
		t.Errorf("the first stop is %q", first)
	}
	for !value[bool](b, `!!document.activeElement.closest("details[open]") && document.activeElement.textContent.startsWith("Roll back")`) {
		if value[string](b, "document.activeElement.textContent") == "Orders for dev" {
			b.keys("\r")
		}
		if ring := value[string](b, "getComputedStyle(document.activeElement).outlineStyle"); ring == "none" {
			t.Errorf("nobody sees that the focus is on %s", value[string](b, "document.activeElement.outerHTML"))
		}
		at := value[string](b, "document.activeElement.outerHTML")
		if seen[at] && len(seen) > 100 {
			t.Fatal("there is no way to the order")
		}
		seen[at] = true
		b.keys("\t")
	}
	b.keys("\r")
	b.until("what the order changes is shown", `document.title.startsWith("Roll back: dev")`)
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

// The menu of a host gives each order to it, by the keyboard, with JavaScript and without.
func TestTheMenuOfAHostGivesOrders(t *testing.T) {
	for _, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("JavaScript %v", scripts), func(t *testing.T) {
			w := pagetest.Rolling(t)
			b := open(t, served(t, w))
			if !scripts {
				b.withoutScripts()
			}
			b.signIn(w, adminapi.Operator)
			for _, order := range [][2]string{
				{"Hold", "It tells it to stay on 17.2.0 whatever its group is told"}, {"Update", "It tells it to update to 17.2.1"}, {"Release", "It ends its order"},
			} {
				b.visit(views["host"])
				b.focus("Orders for the host")
				b.keys("\r")
				b.until("the menu is open", `document.querySelector("details[open] a")`)
				if scripts && order[0] == "Hold" {
					b.fits("the menu of a host")
					b.accessible("the menu of a host")
				}
				b.focus(order[0])
				b.keys("\r")
				b.until("what the order changes is shown", fmt.Sprintf(`document.title.startsWith("%s: web-1")`, order[0]))
				b.says(order[1])
				b.focus("")
				b.keys("ticket for " + order[0] + "\t\r")
				b.until("it was done", `document.querySelector("[role=status]")`)
				b.says("Done: "+order[0]+" web-1", "ticket for "+order[0])
			}
			b.visit(page.Path + "history")
			for _, verb := range []string{"update", "hold", "release"} {
				b.says("token operator", "host "+pagetest.HostID(1)+" "+verb)
			}
			b.harmless()
		})
	}
}

// focus goes by the keyboard to the link or menu with a text, or to the field for the reason, which has none.
func (b *tab) focus(text string) {
	b.t.Helper()
	for range 60 {
		b.keys("\t")
		if value[string](b, "document.activeElement.textContent.trim()") == text {
			return
		}
	}
	b.t.Fatalf("the keyboard does not lead to %q", text)
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
	b.says("1 of 4 hosts")
	value[bool](b, `[...document.querySelectorAll("footer a")].at(-1).click() || true`)
	b.until("it was refreshed", `document.body.innerText.includes("2 of 4 hosts")`)
	value[bool](b, `document.querySelector("details summary").click() || document.querySelector("details[open] li:last-child a").click() || true`)
	b.until("the order at the end of the menu", `document.title.startsWith("Mark done: dev")`)
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
	b.says("1 of 4 hosts")
	w.Said(2, "dev", "web-2", "17.2.1", nil)
	w.Tick()
	b.until("the script has looked again", `document.body.innerText.includes("2 of 4 hosts")`)
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
