package rollout

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
)

// What a host has said, and where that leaves it in a trial that began at 10:00.
func TestTheProgressOfAHost(t *testing.T) {
	begin := when("Mon 10:00")
	t0 := trial{target: "17.2.1", begun: true, since: begin, limit: time.Hour, silence: goneFor, complete: true}
	after := func(d time.Duration) time.Time { return begin.Add(d) }
	told := func(d time.Duration) func(*Host) { return func(h *Host) { h.Told = Event{"17.2.1", after(d)} } }
	begun := func(d time.Duration) func(*Host) { return func(h *Host) { h.Begun = Event{"17.2.1", after(d)} } }
	hasFailed := func(v Semver, d time.Duration) func(*Host) {
		return func(h *Host) { h.Failed = Failure{Event: Event{v, after(d)}} }
	}
	seen := func(d time.Duration) func(*Host) { return func(h *Host) { h.LastSeen = after(d) } }
	pinned := func(h *Host) { h.Pinned = true }
	runs := func(v Semver) func(*Host) { return func(h *Host) { h.Version = v } }
	for _, tc := range []struct {
		name  string
		after time.Duration
		facts []func(*Host)
		want  progress
		fails bool
	}{
		{"it has said nothing", 0, nil, silent, false},
		{"it has said nothing for hours", 9 * time.Hour, []func(*Host){seen(9 * time.Hour)}, silent, false},
		{"it runs the target", 0, []func(*Host){runs("17.2.1")}, updated, false},
		{"it was told", time.Hour, []func(*Host){told(time.Second)}, underway, false},
		{"it was told, and its time is over", time.Hour, []func(*Host){told(0)}, timedOut, false},
		{"it was told before the trial, and was not heard of since", 9 * time.Hour, []func(*Host){told(-time.Hour), seen(-time.Minute)}, silent, false},
		{"it was told before the trial, and goes on saying so", 59 * time.Minute, []func(*Host){told(-9 * time.Hour), seen(0)}, underway, false},
		{"it was told before the trial, and its time in the trial is over", time.Hour, []func(*Host){told(-9 * time.Hour)}, timedOut, false},
		{"it was told another version", time.Hour, []func(*Host){func(h *Host) { h.Told = Event{"17.2.0", begin} }}, silent, false},
		{"it has begun", 20 * time.Minute, []func(*Host){begun(0), seen(0)}, underway, false},
		{"it has begun, and is silent for more than two polls", 20*time.Minute + 1, []func(*Host){begun(0), seen(0)}, gone, false},
		{"it has begun, and goes on reporting", time.Hour, []func(*Host){begun(0), seen(time.Hour)}, underway, false},
		{"it began before the trial", time.Hour, []func(*Host){begun(-time.Second), seen(0)}, silent, false},
		{"it was told and is gone, without having begun", 59 * time.Minute, []func(*Host){told(0), seen(0)}, underway, false},
		{"it failed", 0, []func(*Host){hasFailed("17.2.1", 0)}, failed, true},
		{"it failed, and was told again", 2 * time.Hour, []func(*Host){hasFailed("17.2.1", 0), told(0)}, failed, true},
		{"it failed, and came to the target later", 0, []func(*Host){hasFailed("17.2.1", 0), runs("17.2.1")}, updated, true},
		{"it failed before the trial", 0, []func(*Host){hasFailed("17.2.1", -time.Second)}, silent, false},
		{"it failed with another version", 0, []func(*Host){hasFailed("17.2.0", 0)}, silent, false},
		{"it failed, and was pinned then", 0, []func(*Host){hasFailed("17.2.1", 0), pinned}, failed, true},
		{"it was pinned", 2 * time.Hour, []func(*Host){told(0), pinned}, withdrawn, false},
	} {
		h := &Host{Version: "17.2.0", LastSeen: after(tc.after)}
		for _, f := range tc.facts {
			f(h)
		}
		tr := t0
		tr.now = after(tc.after)
		if got := h.progress(tr); got != tc.want || h.hasFailed(tr) != tc.fails {
			t.Errorf("%s: %d, failed %v; want %d, %v", tc.name, got, h.hasFailed(tr), tc.want, tc.fails)
		}
		// A server that does not know all hosts yet draws no conclusion from
		// silence: the host may have told somebody else.
		tr.complete = false
		if got := h.progress(tr); got == timedOut || got == gone {
			t.Errorf("%s: %d before the counts are complete", tc.name, got)
		}
	}
}

func TestWhatAHostSaysIsNotedOnce(t *testing.T) {
	now := when("Mon 10:00")
	h := new(Host)
	say := func(edit func(*Heartbeat)) {
		b := Heartbeat{HostID: "h", Version: "17.2.0", Told: "17.2.1"}
		edit(&b)
		now = now.Add(10 * time.Minute)
		h.Take(b, now)
	}
	outcome := func(s OutcomeState, at int) func(*Heartbeat) {
		return func(b *Heartbeat) {
			b.Outcome = &Outcome{Target: "17.2.1", State: s, Error: "no", Time: monday.Add(time.Duration(at) * time.Hour)}
		}
	}
	say(func(*Heartbeat) {})
	first := now
	say(func(*Heartbeat) {})
	if h.Told != (Event{"17.2.1", first}) || h.FirstSeen != first || h.LastSeen != now {
		t.Errorf("told twice: %+v", h)
	}
	say(func(b *Heartbeat) { b.Told = "" })
	say(func(*Heartbeat) {})
	if h.Told.At != now {
		t.Errorf("told again: %+v", h.Told)
	}
	say(outcome(OutcomeStarted, 1))
	began := now
	say(outcome(OutcomeStarted, 1))
	if h.Begun != (Event{"17.2.1", began}) {
		t.Errorf("begun: %+v", h.Begun)
	}
	say(outcome(OutcomeRolledBack, 1))
	failedAt := now
	say(outcome(OutcomeRolledBack, 1))
	if h.Failed.At != failedAt || h.Failed.Error != "no" || h.Begun.Target != "" {
		t.Errorf("failed, and said so twice: %+v", h)
	}
	say(outcome(OutcomeFailed, 2))
	again := now
	if h.Failed.At != again {
		t.Errorf("failed again: %+v", h.Failed)
	}
	say(outcome(OutcomeInterrupted, 3))
	say(outcome(OutcomeSucceeded, 4))
	say(func(b *Heartbeat) {})
	if h.Failed.At != again {
		t.Errorf("a failure is forgotten: %+v", h.Failed)
	}
	now = now.Add(16 * time.Minute) // and ten more: it was gone
	say(func(*Heartbeat) {})
	if h.FirstSeen != now || h.omitted(now) != omitNew || h.omitted(now.Add(settled)) != "" {
		t.Errorf("it is back: %+v, %s", h, h.omitted(now))
	}
}

func TestWhoCounts(t *testing.T) {
	now := when("Mon 10:00")
	sound := Host{FirstSeen: now.Add(-time.Minute), LastSeen: now.Add(-25 * time.Minute)}
	for want, edit := range map[string]func(*Host){
		"":           func(*Host) {},
		omitNew:      func(h *Host) { h.FirstSeen = now.Add(-59 * time.Second) },
		omitAbsent:   func(h *Host) { h.LastSeen = now.Add(-25*time.Minute - 1) },
		omitPinned:   func(h *Host) { h.Pinned = true },
		omitDisabled: func(h *Host) { h.Disabled = true },
		omitCloned:   func(h *Host) { h.Cloned = true },
	} {
		h := sound
		edit(&h)
		if got := h.omitted(now); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	w := newWorld(t, "unmatched: hold, "+regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"))
	w.add("dev", 3, "17.2.0")
	w.add("prod", 4, "17.2.1")
	w.add("typo", 2, "17.2.1")
	w.fleet.named("dev-0").Pinned = true
	w.fleet.named("prod-1").Unhealthy = true
	w.tick()
	n := w.counts()
	if n.Groups[0].Present != 2 || n.Groups[1].Present != 4 || n.Groups[1].UpToDate != 4 || n.Groups[1].Unhealthy != 1 ||
		n.Omitted[omitPinned] != 1 || n.Omitted[omitUnmatched] != 2 || n.Unmatched["typo"] != 2 || n.Groups[1].Versions["17.2.1"] != 4 {
		t.Errorf("got %+v", n)
	}
	report := NewAgentReport("find-1", w.rollout, n, w.now)
	data, err := YAML(report)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if got := list[0].(*AgentReport).Spec; got.Groups["prod"].Versions["17.2.1"].Count != 4 || got.Groups["dev"].Versions["17.2.0"].Count != 2 || len(got.Omitted) != 2 {
		t.Errorf("it says %+v", got)
	}
}

func TestReportsThatCannotBeOnesAreRefused(t *testing.T) {
	sound := func() Heartbeat {
		return Heartbeat{HostID: "h", Hostname: "web-1", Group: "Gruppe ä", Version: "17.2.0", Outcome: &Outcome{Target: "17.2.1", State: OutcomeFailed, Time: monday}}
	}
	b := sound()
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*Heartbeat){
		"host_id: it is missing":        func(b *Heartbeat) { b.HostID = "" },
		"host_id: it is longer":         func(b *Heartbeat) { b.HostID = strings.Repeat("h", 129) },
		"hostname: it is longer":        func(b *Heartbeat) { b.Hostname = strings.Repeat("h", 254) },
		`hostname: "a\nb" is not plain`: func(b *Heartbeat) { b.Hostname = "a\nb" },
		`group: "\x1b[2J" is not plain`: func(b *Heartbeat) { b.Group = "\x1b[2J" },
		`arch: "\xff" is not plain`:     func(b *Heartbeat) { b.Arch = "\xff" },
		"outcome: it has no target":     func(b *Heartbeat) { b.Outcome.Time = time.Time{} },
		"outcome.error: it is longer":   func(b *Heartbeat) { b.Outcome.Error = strings.Repeat("e", 4097) },
	} {
		b := sound()
		edit(&b)
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// A host that sends its name as find.HostID has it is the one that a server knows by that name.
func TestAHostIsTheSameByItsNameAndByTheIDThatItSends(t *testing.T) {
	for name, known := range map[string]bool{
		"11111111-2222-3333-4444-555555555555":   true,
		"AAAAAAAA-2222-3333-4444-555555555555":   true,
		"123456789012-i-0123456789abcdef0":       true,
		"123456789012-i-01234567":                true,
		"123456789012-i-0123":                    false,
		"123456789012-i-0123456789abcdef0\n":     false,
		"123456789012-i-0123456789ABCDEF0":       false,
		"1123456789012-i-0123456789abcdef0":      false,
		"web-1":                                  false,
		"":                                       false,
		"{11111111-2222-3333-4444-555555555555}": false,
	} {
		id, ok := find.HostID(name)
		if _, isUUID := ParseUUID(id); ok != known || ok != isUUID || ok && ParseHostID(id) != ParseHostID(name) {
			t.Errorf("%q is sent as %q, %v, and known as %v", name, id, ok, ParseHostID(name))
		}
	}
}

func TestHostIDs(t *testing.T) {
	const text = "c757ad82-95f2-4416-ae9d-a20ffd9b5a54"
	id := ParseHostID(text)
	if id.String() != text || ParseHostID(strings.ToUpper(text)) != id {
		t.Errorf("%s is read as %s", text, id)
	}
	seen := map[HostID]string{id: text}
	for _, other := range []string{"", "a", text[:35], text + "0", strings.Replace(text, "-", "0", 1), strings.Replace(text, "c", "g", 1), text[1:] + "-", "278576220453-i-01234567890abcdef"} {
		got := ParseHostID(other)
		if before, there := seen[got]; there {
			t.Errorf("%q is the same host as %q", other, before)
		}
		seen[got] = other
	}
}
