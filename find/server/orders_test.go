package server

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
)

// What people order over the socket, what it does, and what is said of it.
func TestOrdersOverTheAdminAPI(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4, canary_count: 1}, {name: prod, days: ['*'], start_hour: 14, max_in_flight: 1}"))
	w.write(scheduled)
	c := w.control(clock, w.store)
	for i := range 4 {
		c.report(i, []string{"dev", "prod"}[i/2], "17.2.0", nil)
	}
	clock.pass(2 * time.Minute)
	c.tick()
	a := newAdminSocket(t, admin.Options{Stored: c.stored, Store: w.store, Engine: c.engine, Log: w.options.Log})
	const orders = "/v1/orders"
	for _, step := range []struct {
		name, method, path, body string
		status                   int
		want                     string
		states                   string
	}{
		{"how it is", "GET", "/v1/overview", "", 200, `{"state":"waiting","sentence":"Group dev starts at Tue 2025-06-03 04:00 UTC.","since":"2025-06-02T11:02:00Z","commands":[{"does":"it starts by itself"},{"command":"rollout start dev","does":"tells 1 host to update to 17.2.1 first","verb":"start","group":"dev"}],"at":"2025-06-03T04:00:00Z","start_version":"17.2.0","target_version":"17.2.1"`, "unstarted unstarted"},
		{"nobody's group", "POST", orders, `{"verb":"start","groups":["typo"]}`, 422, "the rollout has no group typo (there are dev, prod)", "unstarted unstarted"},
		{"no such verb", "POST", orders, `{"verb":"halt","groups":["dev"]}`, 422, "there is no order", "unstarted unstarted"},
		{"no order", "POST", orders, `start dev`, 400, "could not be read", "unstarted unstarted"},
		{"a misspelt field", "POST", orders, `{"verb":"back","group":["dev"]}`, 400, "group: unknown field", "unstarted unstarted"},
		{"a force that is none", "POST", orders, `{"verb":"start","groups":["dev"],"force":"no"}`, 400, "could not be read", "unstarted unstarted"},
		{"groups that are no list", "POST", orders, `{"verb":"start","groups":"dev"}`, 400, "could not be read", "unstarted unstarted"},
		{"a group that drives a terminal", "POST", orders, `{"verb":"start","groups":["\u001b[2J"]}`, 422, `no group \"\\x1b[2J\"`, "unstarted unstarted"},
		{"too much of an order", "POST", orders, `{"verb":"` + strings.Repeat("x", 1<<20) + `"}`, 400, "could not be read", "unstarted unstarted"},
		{"before its turn", "POST", orders, `{"verb":"start","groups":["prod"]}`, 422, "group dev comes before it, and is not done; --force starts it anyway, without canaries", "unstarted unstarted"},
		{"a dry run", "POST", orders + "?dry_run=true", `{"verb":"start","groups":["dev"]}`, 200, `{"steps":[{"group":"dev","from":"unstarted","to":"canary","reason":"manual_start"}],"overview":{"state":"updating","sentence":"0 of 1 canary of dev is on 17.2.1;`, "unstarted unstarted"},
		{"start", "POST", orders, `{"verb":"start","groups":["dev"],"reason":"a fix"}`, 200, `"to":"canary"`, "canary unstarted"},
		{"start without canaries", "POST", orders, `{"verb":"start","groups":["dev"],"force":true}`, 200, `"to":"active","reason":"manual_forced_start"`, "active unstarted"},
		{"mark done", "POST", orders, `{"verb":"done","groups":["dev"]}`, 200, `"from":"active","to":"done"`, "done unstarted"},
		{"nothing to retry", "POST", orders, `{"verb":"retry","groups":["dev"]}`, 422, "there is nothing to retry", "done unstarted"},
		{"roll all back", "POST", orders, `{"verb":"back"}`, 200, `"halted":true,"reason":"rollout_rolled_back"`, "rolledback unstarted!"},
		{"begin again", "POST", orders, `{"verb":"reset"}`, 200, `{"steps":[{"to":"unstarted","reason":"manual_reset"}]`, "unstarted unstarted"},
		{"why", "GET", "/v1/why?group=typo&host=" + hostUUID(1), "", 200, `"reasons":["The rollout goes from 17.2.0 to 17.2.1, by the schedule regular; updates are enabled.","The host names the group typo, which is not in the schedule. It gets the answer of the last group, prod."`, "unstarted unstarted"},
		{"all resources", "GET", "/v1/resources", "", 200, `{"resources":[{"kind":"autoupdate_config",`, "unstarted unstarted"},
	} {
		status, body := a.do(step.method, step.path, step.body)
		if status != step.status || !strings.Contains(body, step.want) {
			t.Errorf("%s: %d %s; want %d and %s", step.name, status, body, step.status, step.want)
		}
		if got := c.states(); got != step.states {
			t.Errorf("%s: the groups are %s; want %s", step.name, got, step.states)
		}
	}
	records, err := w.other.History(t.Context(), 20)
	if err != nil || len(records) < 5 {
		t.Fatalf("the history: %+v, %v", records, err)
	}
	first := records[len(records)-2] // before it the rollout has begun
	if first.Who != fmt.Sprintf("uid %d", os.Getuid()) || first.What != "rollout start dev" || first.Why != "a fix" || first.Key != rollout.KindRollout || first.To <= first.From {
		t.Errorf("the history has %+v", first)
	}
}

// The way back to the newest release: the version is gone with its rollout, whatever
// an engine does at the same time.
func TestTheWayBackToTheNewestRelease(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4}"))
	c := w.control(clock, w.store)
	a := newAdminSocket(t, admin.Options{Stored: c.stored, Store: w.store, Engine: c.engine, Log: w.options.Log})
	const version = "/v1/resources/autoupdate_version"
	if status, body := a.do("DELETE", version, ""); status != 404 || !strings.Contains(body, "there is no autoupdate_version in the store") {
		t.Errorf("without a version: %d %s", status, body)
	}
	w.write(scheduled)
	c.tick()
	if got := c.stored.AnswerTo(rollout.Query{}).Version; got != "17.2.0" {
		t.Fatalf("hosts are told %s", got)
	}
	if status, body := a.do("DELETE", version+"?dry_run=true", ""); status != 200 || !strings.Contains(body, `"change":"removed"`) || c.stored.AnswerTo(rollout.Query{}).Version != "17.2.0" {
		t.Errorf("a dry run: %d %s", status, body)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				c.engine.Tick(t.Context())
			}
		}
	}()
	for range 50 {
		if status, body := a.do("DELETE", version+"?reason=oops", ""); status != 200 || !strings.Contains(body, `"answer":{"agent_version":"15.1.0"`) {
			t.Errorf("%d %s", status, body)
		}
		if got := c.stored.AnswerTo(rollout.Query{}); got != base {
			t.Errorf("hosts are told %+v; want %+v", got, base)
		}
		if status, body := a.do("GET", version, ""); status != 404 {
			t.Errorf("it is still there: %s", body)
		}
		if status, body := a.do("GET", "/v1/resources/autoupdate_agent_rollout", ""); status != 404 {
			t.Errorf("its rollout is still there: %s", body)
		}
		if status, body := a.do("PUT", "/v1/resources", scheduled); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	close(stop)
	<-done
	var all adminapi.Resources
	_, body := a.do("GET", "/v1/resources", "")
	if err := json.Unmarshal([]byte(body), &all); err != nil || len(all.Resources) != 3 {
		t.Errorf("the resources are %s", body)
	}
}
