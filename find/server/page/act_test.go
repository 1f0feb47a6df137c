package page

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page/pagetest"
)

var (
	orderLink   = regexp.MustCompile(`<a href="/ui/act\?([^"]*)">`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
)

// ordersOn are the orders that a view leads to, each once.
func ordersOn(page string) (list []string) {
	for _, link := range orderLink.FindAllStringSubmatch(page, -1) {
		list = append(list, html.UnescapeString(link[1]))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// form is what the browser sends when somebody gives a reason and confirms what a view shows.
func (b *browser) form(path, reason string) url.Values {
	b.w.t.Helper()
	status, page := b.get(path)
	if status != http.StatusOK {
		b.w.t.Fatalf("%s answers %d: %s", path, status, page)
	}
	_, main, _ := strings.Cut(page, `<form method="post" action="/ui/act">`)
	values := url.Values{"reason": {reason}}
	for _, f := range hiddenField.FindAllStringSubmatch(main, -1) {
		values.Set(f[1], html.UnescapeString(f[2]))
	}
	return values
}

func actPath(verb, group string) string {
	return Path + "act?" + url.Values{"verb": {verb}, "group": {group}}.Encode()
}

func hostActPath(verb, host string) string {
	return Path + "act?" + url.Values{"verb": {verb}, "host": {host}}.Encode()
}

// newest is the last record of the history.
func (w *world) newest() (who, what, why string) {
	w.t.Helper()
	records, err := w.Store.History(w.t.Context(), 1)
	if err != nil || len(records) != 1 {
		w.t.Fatal(records, err)
	}
	return records[0].Who, records[0].What, records[0].Why
}

// Each role has the orders that it may give, and no others.
func TestEachRoleHasItsOrders(t *testing.T) {
	all := []string{"force=true&group=prod&verb=start", "group=dev&verb=back", "group=dev&verb=done", "group=prod&verb=done", "verb=suspend"}
	w := served(t, pagetest.Rolling(t))
	for _, role := range adminapi.Roles {
		_, page := w.as(role).get(Path)
		want := all
		if role == adminapi.Viewer {
			want = nil
		}
		if got := ordersOn(page); !slices.Equal(got, want) {
			t.Errorf("%s has the orders %q; want %q", role, got, want)
		}
	}
}

// Each button of each state shows what it changes, takes a reason, and does what the command line would. The history has the reason and the
// name of the token.
func TestAButtonDoesWhatItShows(t *testing.T) {
	for name, tc := range map[string]struct {
		before      func(*world)
		verb, group string
		shows       []string
		what        string
		after       string
	}{
		"roll back": {nil, "back", "dev", []string{"Group dev goes from active to rolledback", "It tells 1 host to go back to 17.2.0."}, "rollout back dev", `data-state="rolledback"`},
		"mark done": {nil, "done", "dev", []string{"Group dev goes from active to done.", "It ends it: tells 3 hosts to update to 17.2.1, and prod may start."}, "rollout done dev", `data-state="done"`},
		"start": {func(w *world) { w.button("done", "dev") }, "start", "prod",
			[]string{"Group prod goes from unstarted to active.", "It tells 2 hosts to update to 17.2.1."}, "rollout start prod", `data-state="active"`},
		"retry":   {nil, "retry", "dev", []string{"Group dev goes from canary to canary: hosts hear of it"}, "rollout retry dev", `data-state="canary"`},
		"suspend": {nil, "suspend", "", []string{"Updates go from enabled to suspended.", "Hosts that are not on 17.2.1 yet (5) are told to stay as they are"}, "apply: mode enabled → suspended", `data-state="suspended"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t, map[bool]func(*testing.T) *pagetest.World{true: pagetest.Halted, false: pagetest.Rolling}[tc.verb == "retry"](t))
			if tc.before != nil {
				tc.before(w)
			}
			b := w.as(adminapi.Operator)
			path := actPath(tc.verb, tc.group)
			_, page := b.get(path)
			has(t, path, page, tc.shows...)
			who, what, _ := w.newest()
			form := b.form(path, "ticket 7")
			if again, same, _ := w.newest(); again != who || same != what {
				t.Errorf("to look at it made a record: %s %s", again, same)
			}
			resp, page := b.send(http.MethodPost, Path+"act", form, nil)
			if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != Path {
				t.Fatalf("confirmed: %s %s", resp.Status, page)
			}
			if who, what, why := w.newest(); who != "token operator" || !strings.HasPrefix(what, tc.what) || why != "ticket 7" {
				t.Errorf("the history has %q by %q because %q", what, who, why)
			}
			w.Tick()
			_, page = b.get(Path)
			has(t, "the page after it", page, tc.after, `role="status">Done: `)
			if _, page = b.get(Path); strings.Contains(page, "Done: ") {
				t.Error("it is said twice")
			}
			_, page = b.get(Path + "history")
			has(t, "the audit list", page, "token operator", "ticket 7")
		})
	}
}

// button uses one as an administrator.
func (w *world) button(verb, group string) {
	w.t.Helper()
	b := w.as(adminapi.Admin)
	if resp, page := b.send(http.MethodPost, Path+"act", b.form(actPath(verb, group), "before"), nil); resp.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("%s %s: %s %s", verb, group, resp.Status, page)
	}
	w.Tick()
}

// What is wrong with a form changes nothing, whoever sends it.
func TestAFormThatIsRefusedChangesNothing(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	operator, viewer := w.as(adminapi.Operator), w.as(adminapi.Viewer)
	good := operator.form(actPath("back", "dev"), "why not")
	edit := func(name, value string) url.Values {
		form := url.Values{}
		for n, v := range good {
			form[n] = v
		}
		form.Set(name, value)
		return form
	}
	viewer.get(Path)
	forged := edit("csrf", viewer.csrf)
	before, _, _ := w.newest()
	for name, tc := range map[string]struct {
		who    *browser
		form   url.Values
		header map[string]string
		status int
		says   string
	}{
		"a viewer's forged form":    {viewer, forged, nil, 403, "this is for the role operator, version-admin, config-admin or admin, and the access token has the role viewer"},
		"a viewer's forged suspend": {viewer, url.Values{"csrf": {viewer.csrf}, "verb": {"suspend"}, "reason": {"x"}}, nil, 403, "this is for the role"},
		"without the form's token":  {operator, edit("csrf", ""), nil, 403, "not one of your session"},
		"another session's token":   {operator, edit("csrf", viewer.csrf), nil, 403, "not one of your session"},
		"from another site":         {operator, good, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "another site"},
		"from another origin":       {operator, good, map[string]string{"Origin": "https://evil.example"}, 403, "another site"},
		"without a reason":          {operator, edit("reason", " \t"), nil, 422, "Give a reason"},
		"a long reason":             {operator, edit("reason", strings.Repeat("x", maxReason+1)), nil, 422, "longer than 500"},
		"another plan":              {operator, edit("seen", "x"), nil, 409, "The rollout has changed since you looked."},
		"a verb without a button":   {operator, edit("verb", "reset"), nil, 400, "There is no such order."},
		"an unknown group":          {operator, edit("group", "<script>"), nil, 422, "the rollout has no group"},
		"signed out":                {w.browser(), good, nil, 401, "Sign in and try again."},
		"too much":                  {operator, edit("reason", strings.Repeat("x", maxForm)), nil, 403, "not one of your session"},
	} {
		resp, page := tc.who.send(http.MethodPost, Path+"act", tc.form, tc.header)
		if resp.StatusCode != tc.status || !strings.Contains(html.UnescapeString(page), tc.says) || strings.Contains(page, "<script>") {
			t.Errorf("%s: %s: %s", name, resp.Status, page)
		}
	}
	if after, _, _ := w.newest(); after != before {
		t.Errorf("something was changed by %s", after)
	}
	if r := w.Stored.Resources(); r.Rollout.Status.Groups[0].State != rollout.Active || r.Config.Spec.Agents.Mode != rollout.Enabled {
		t.Errorf("the rollout is %+v, %s", r.Rollout.Status.Groups[0], r.Config.Spec.Agents.Mode)
	}
	if log := w.Log.String(); !strings.Contains(log, "the page refused what a form asked for") || !strings.Contains(log, "token=viewer role=viewer") {
		t.Errorf("the log does not name who tried:\n%s", log)
	}
}

// Who has looked and confirms is told if the button would do something else by then; hosts that report meanwhile are not that.
func TestWhatIsConfirmedIsWhatWasShown(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.as(adminapi.Operator)
	form := b.form(actPath("done", "dev"), "enough")
	w.Said(2, "dev", "web-2", "17.2.1", nil)
	w.Tick()
	other := b.form(actPath("done", "prod"), "enough")
	if resp, _ := b.send(http.MethodPost, Path+"act", form, nil); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("a host reported meanwhile: %s", resp.Status)
	}
	w.Tick()
	w.button("start", "prod")
	resp, page := b.send(http.MethodPost, Path+"act", other, nil)
	if resp.StatusCode != http.StatusConflict || !strings.Contains(page, "Group prod goes from active to done.") || !strings.Contains(page, ">enough</textarea>") {
		t.Errorf("the group started meanwhile: %s %s", resp.Status, page)
	}
}

// The menu of a host has the orders that the server would take for it, with their consequences.
func TestAHostHasItsOrders(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	id := pagetest.HostID(4) // of prod, which has not begun
	view, b := Path+"hosts/"+id, w.as(adminapi.Operator)
	for _, step := range []struct {
		verb, does, told string
		left             []string
	}{
		{"hold", "It tells it to stay on 17.2.0 whatever its group is told, and leaves it out of all counts.", "Version 17.2.0 (oss), and to stay as it is.", []string{"release", "update"}},
		{"update", "It tells it to update to 17.2.1 whatever its group is told.", "Version 17.2.1 (oss), and to update now.", []string{"hold", "release", "update"}},
		{"release", "It ends its order (ordered to update since Mon 2025-06-02 12:", "Version 17.2.0 (oss), and to stay as it is.", []string{"hold", "update"}},
	} {
		_, page := b.get(hostActPath(step.verb, id))
		has(t, step.verb, page, step.does, `<a class="cancel" href="`+view+`">`)
		form := b.form(hostActPath(step.verb, id), "ticket 8")
		resp, page := b.send(http.MethodPost, Path+"act", form, nil)
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != view {
			t.Fatalf("%s: %s %s", step.verb, resp.Status, page)
		}
		if who, what, why := w.newest(); who != "token operator" || what != "host "+id+" "+step.verb || why != "ticket 8" {
			t.Errorf("the history has %q by %q because %q", what, who, why)
		}
		_, page = b.get(view)
		has(t, "the host after "+step.verb, page, `role="status">Done: `, step.told, "ticket 8")
		var left []string
		for _, order := range ordersOn(page) {
			left = append(left, strings.TrimPrefix(order, "host="+id+"&verb="))
		}
		if !slices.Equal(left, step.left) {
			t.Errorf("after %s the host has the orders %q; want %q", step.verb, left, step.left)
		}
		if _, page := w.as(adminapi.Viewer).get(view); len(ordersOn(page)) > 0 {
			t.Errorf("a viewer has the orders %q", ordersOn(page))
		}
	}
	w.Said(4, "prod", "web-4", "17.2.0", func(h *find.Heartbeat) { h.Pinned = true })
	if _, page := b.get(view); slices.Contains(ordersOn(page), "host="+id+"&verb=update") {
		t.Error("a host that its owner pinned has the order to update")
	}
	if status, page := b.get(hostActPath("update", id)); status != http.StatusUnprocessableEntity || !strings.Contains(page, "is pinned: only its owner ends that") {
		t.Errorf("an order against a pin: %d %s", status, page)
	}
	for _, path := range []string{hostActPath("back", id), actPath("hold", "prod"), hostActPath("hold", "00000000-dead-beef"),
		hostActPath("hold", id) + "&group=prod", hostActPath("hold", id) + "&to=1.0.0", hostActPath("hold", id) + "&force=true"} {
		if status, _ := b.get(path); status < 400 || status >= 500 {
			t.Errorf("%s answers %d", path, status)
		}
	}
}
