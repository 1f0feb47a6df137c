package rollout

import (
	"strings"
	"testing"
	"time"
)

// What a change has brought follows from the two states alone.
func TestNoticesOfAChange(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	state := func(change func(*Rollout)) *Rollout {
		r := &Rollout{Spec: RolloutSpec{StartVersion: "1.0.0", TargetVersion: "1.1.0"}}
		r.Status.StartTime = noon
		r.Status.Groups = []GroupStatus{{Name: "dev", State: Active, LastUpdateTime: noon}, {Name: "prod", State: Unstarted, LastUpdateTime: noon}}
		if change != nil {
			change(r)
		}
		return r
	}
	halted := func(r *Rollout) { r.Status.Groups[0].Halted = &Halted{noon, HostsFailed, "2 failed"} }
	retried := func(r *Rollout) {
		r.Status.Groups[0].LastUpdateReason, r.Status.Groups[0].RetryTime = ManualRetry, noon
		r.Status.Groups[0].LastUpdateTime = noon.Add(time.Hour)
	}
	done := func(r *Rollout) { r.Status.Groups[0].State, r.Status.Groups[0].DoneTime = Done, noon }
	stalled := func(since time.Time, message string) func(*Rollout) {
		return func(r *Rollout) { r.Status.Groups[0].Conditions = []Condition{{Stalled, since, message}} }
	}
	for name, tc := range map[string]struct {
		before, after *Rollout
		want          string
	}{
		"nothing":                         {state(nil), state(nil), ""},
		"no rollout any more":             {state(nil), nil, ""},
		"a new rollout":                   {nil, state(nil), ""},
		"a halt":                          {state(nil), state(halted), "halted dev hosts_failed"},
		"a halt that goes on":             {state(halted), state(halted), ""},
		"a halt of another rollout":       {state(func(r *Rollout) { halted(r); r.Spec.TargetVersion = "1.0.9" }), state(halted), "halted dev hosts_failed"},
		"a halt again":                    {state(halted), state(func(r *Rollout) { halted(r); r.Status.Groups[0].Halted.Since = noon.Add(time.Hour) }), "halted dev hosts_failed"},
		"a halt that is over":             {state(halted), state(nil), ""},
		"a retry":                         {state(halted), state(retried), "retried dev manual_retry"},
		"a retry that goes on":            {state(retried), state(retried), ""},
		"a group that is done":            {state(nil), state(done), "done dev "},
		"one that was":                    {state(done), state(done), ""},
		"a condition":                     {state(nil), state(stalled(noon, "a")), "stalled dev Stalled"},
		"a condition with other words":    {state(stalled(noon, "a")), state(stalled(noon, "b")), ""},
		"a condition again":               {state(stalled(noon, "a")), state(stalled(noon.Add(time.Hour), "a")), "stalled dev Stalled"},
		"a condition of the rollout":      {state(nil), state(func(r *Rollout) { r.Status.Conditions = []Condition{{WithoutGroup, noon, "none"}} }), "stalled  NoGroups"},
		"a halt and an end in one change": {state(nil), state(func(r *Rollout) { done(r); r.Status.Groups[1].Halted = &Halted{noon, CanaryFailed, ""} }), "halted prod canary_failed, done dev "},
		"a halt that was held meanwhile":  {state(nil), state(func(r *Rollout) { halted(r); r.Status.Groups[0].UpToDateCount = 3 }), "halted dev hosts_failed"},
		"counts and nothing else":         {state(nil), state(func(r *Rollout) { r.Status.Groups[0].UpToDateCount = 3 }), ""},
		"the first hosts that fail": {state(nil), state(func(r *Rollout) { r.Status.Groups[0].FailedCount, r.Status.Groups[0].PresentCount = 2, 13 }),
			"failed dev hosts_failed"},
		"more hosts that fail": {state(func(r *Rollout) { r.Status.Groups[0].FailedCount = 1 }), state(func(r *Rollout) { r.Status.Groups[0].FailedCount = 2 }), ""},
		"a retry of a group before its turn": {state(func(r *Rollout) { r.Status.Groups[1].Halted = &Halted{noon, RolloutRollback, ""} }), state(func(r *Rollout) {
			r.Status.Groups[1].LastUpdateReason, r.Status.Groups[1].LastUpdateTime = ManualRetry, noon.Add(time.Hour)
		}), "retried prod manual_retry"},
	} {
		var got []string
		for _, n := range Notices(tc.before, tc.after) {
			for _, g := range n.Groups {
				got = append(got, string(n.Kind)+" "+g.Name+" "+g.Reason)
			}
			if n.Target != "1.1.0" || n.Start != "1.0.0" {
				t.Errorf("%s: it is of %s → %s", name, n.Start, n.Target)
			}
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %q; want %q", name, text, tc.want)
		}
	}
}

func TestNoticesAreBounded(t *testing.T) {
	r := &Rollout{}
	for range maxNoticeGroups + 3 {
		r.Status.Groups = append(r.Status.Groups, GroupStatus{Name: "g", Halted: &Halted{Message: strings.Repeat("ü", maxNoticeText)}})
	}
	n := Notices(nil, r)
	if len(n) != 1 || len(n[0].Groups) != maxNoticeGroups || n[0].OmittedGroups != 3 {
		t.Fatalf("%d notices", len(n))
	}
	if text := n[0].Groups[0].Message; len(text) > maxNoticeText+3 || !strings.HasSuffix(text, "ü…") {
		t.Errorf("a message has %d bytes: %s", len(text), text)
	}
}

const goodNotify = "kind: autoupdate_notify\nmetadata: {name: pager}\nspec:\n  url: https://example.com/x\n  secret_file: /etc/s\n  kinds: [halted, done]\n"

// A webhook that cannot be meant is refused, and no secret is quoted.
func TestWebhooksThatAreRefused(t *testing.T) {
	const good = goodNotify
	if list, err := Parse([]byte(good)); err != nil || Key(list[0]) != "autoupdate_notify/pager" {
		t.Fatalf("%v, %v", list, err)
	}
	for change, want := range map[string]string{
		"name: pager|name: Pa/ger":                                        "metadata.name",
		"name: pager|name: ''":                                            "metadata.name: it is missing",
		"https://example.com/x|https://u:MARKED@example.com/x":            "spec.url_file",
		"https://example.com/x|https://example.com/x?MARKED":              "spec.url_file",
		"https://example.com/x|https://example.com/x#MARKED":              "spec.url_file",
		"https://example.com/x|http://example.com/MARKED":                 "over https",
		"https://example.com/x|ftp://example.com/MARKED":                  "over https",
		"https://example.com/x|MARKED":                                    "it is no URL",
		"https://example.com/x|https:///MARKED":                           "it is no URL",
		"url: https://example.com/x|ca_file: /x":                          "either url or url_file",
		"url: https://example.com/x|url: https://a/\n  url_file: /x":      "either url or url_file",
		"url: https://example.com/x|url_file: x":                          "spec.url_file: x is not an absolute path",
		"secret_file: /etc/s|secret_file: s":                              "spec.secret_file: s is not an absolute path",
		"  secret_file: /etc/s\n|":                                        "spec.secret_file: it is missing",
		"[halted, done]|[]":                                               "spec.kinds: name at least one",
		"[halted, done]|[halted, halted]":                                 "spec.kinds[1]: halted is there already",
		"[halted, done]|[felled]":                                         "is not one of halted, stalled, failed, blocked, done, retried",
		"secret_file: /etc/s|secret_file: /etc/s\n  secret: whsec_MARKED": "spec.secret",
	} {
		from, to, _ := strings.Cut(change, "|")
		_, err := Parse([]byte(strings.Replace(good, from, to, 1)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MARKED") {
			t.Errorf("%s: %v; want %s, and no secret", change, err, want)
		}
	}
	for _, good := range []string{"http://127.0.0.1:8080/x", "http://[::1]/", "http://localhost/hook", "https://[2001:db8::1]:8443/hook"} {
		if err := checkNotifyURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
