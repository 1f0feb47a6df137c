package installer

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

func TestAQuickLookDoesWhatARunWithNothingToDoDoes(t *testing.T) {
	h := newCalmHost(t)
	var log bytes.Buffer
	for _, path := range []string{h.Paths.LastAnswer(), h.Paths.Summary()} {
		data, err := os.ReadFile(path)
		must(t, err)
		old := strings.ReplaceAll(string(data), strconv.Itoa(time.Now().Year())+"-", "1999-")
		must(t, os.WriteFile(path, []byte(old), 0o600))
		must(t, os.Chmod(path, map[bool]fs.FileMode{true: 0o644, false: 0o600}[path == h.Paths.Summary()]))
	}
	if !QuickLook(t.Context(), h.Paths.RunDir, "test", slog.New(slog.NewTextHandler(&log, nil))) {
		t.Fatal("it does not apply")
	}
	if !strings.Contains(log.String(), `msg="version 1.0.0 is active and wanted"`) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("it says %s", &log)
	}
	if a := h.recall(h.c.Spec); a == nil || time.Since(a.Time) > time.Minute || a.Version != "1.0.0" {
		t.Errorf("find.json says %+v", a)
	}
	before, err := os.ReadFile(h.Paths.Summary())
	must(t, err)
	if !h.looks() {
		t.Error("it does not apply twice")
	}
	h.run()
	after, err := os.ReadFile(h.Paths.Summary())
	must(t, err)
	if a, b := withoutTime(before), withoutTime(after); a != b || strings.Contains(string(before), "1999-") || strings.Contains(string(before), never) {
		t.Errorf("status.json of a quick look\n%s\nof a whole run\n%s", before, after)
	}
}

// Whatever is done to whatever a run goes by, the next run is a whole one.
func TestAnyChangeMakesTheNextRunAWholeOne(t *testing.T) {
	h := newCalmHost(t)
	s, tried := h.record(), map[string]int{}
	for _, p := range s.Premises {
		inside := strings.HasPrefix(p.Path, h.root+"/")
		if p.Path == h.Paths.RunDir || !inside {
			continue
		}
		for _, c := range changes(filepath.Join(t.TempDir(), "aside")) {
			if !c.fits(p) {
				continue
			}
			tried[c.name]++
			must(t, c.do(p.Path))
			if h.looks() {
				t.Errorf("%s (%s) is %s, and the run is no whole one", p.Path, p.Care, c.name)
			}
			must(t, c.undo(p.Path))
			for n, p := range s.Premises {
				seen, err := p.Care.see(p.Path)
				must(t, err)
				s.Premises[n].Seen = seen
			}
			h.leave(s)
			if !h.looks() {
				t.Fatalf("%s (%s) is as it was (%s), and the look does not apply: this test shows nothing", p.Path, p.Care, c.name)
			}
		}
	}
	for _, c := range changes("") {
		if tried[c.name] == 0 {
			t.Errorf("no path is %s", c.name)
		}
	}
}

// The agent's configuration may be a link to where an administrator keeps it: what is
// written there is what a run goes by.
func TestAConfigurationBehindALinkIsAPremise(t *testing.T) {
	h := newCalmHost(t)
	h.c.Spec.Proxy = ""
	h.save()
	kept := filepath.Join(t.TempDir(), "teleport.yaml")
	writeFile(t, kept, "teleport: {proxy_server: '"+h.w.url+"'}\n")
	must(t, os.Remove(h.Paths.AgentConfig))
	must(t, os.Symlink(kept, h.Paths.AgentConfig))
	h.run()
	if !h.looks() {
		t.Fatal("the look does not apply: this test shows nothing")
	}
	writeFile(t, kept, "teleport: {proxy_server: 'https://other.example.com'}\n")
	if h.looks() {
		t.Error("the agent has another proxy, and the run is no whole one")
	}
}

func TestARecordInDoubtIsNotGoneBy(t *testing.T) {
	h := newCalmHost(t)
	good := h.record()
	ago := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).Unix(), 10) }
	seen := func(path string) func(*settled) {
		return func(s *settled) {
			n := slices.IndexFunc(s.Premises, func(p premise) bool { return p.Path == path })
			s.Premises = slices.Clone(s.Premises)
			s.Premises[n].Seen += "x"
		}
	}
	for name, change := range map[string]func(*settled){
		"an hour old":          func(s *settled) { s.At = ago(time.Hour) },
		"from the future":      func(s *settled) { s.At = ago(-time.Minute) },
		"without a time":       func(s *settled) { s.At = "" },
		"of another form":      func(s *settled) { s.Form += "0" },
		"of other arguments":   func(s *settled) { s.Given += "0" },
		"of another folder":    func(s *settled) { s.RunDir += "0" },
		"of another boot":      seen("boot"),
		"of another program":   seen("/proc/self/exe"),
		"of another host name": seen("hostname"),
		"without a premise":    func(s *settled) { s.Premises = nil },
		"of a process that is gone": func(s *settled) {
			s.Premises = append(slices.Clone(s.Premises), premise{"4194305", process, "1 /bin/sh"})
		},
		"of another answer": func(s *settled) { s.Answer += "0" },
	} {
		s := good
		change(&s)
		h.leave(s)
		if h.looks() {
			t.Errorf("a record %s is gone by", name)
		}
	}
	whole := string(good.encode())
	for n := range len(whole) {
		if _, ok := decodeSettled(whole[:n]); ok {
			t.Fatalf("a record of which %d of %d bytes are there is gone by", n, len(whole))
		}
	}
	h.leave(good)
	for name, tamper := range map[string][2]func() error{
		"that others may write": {func() error { return os.Chmod(h.Paths.Settled(), 0o622) }, func() error { return os.Chmod(h.Paths.Settled(), 0o600) }},
		"that is a link": {func() error {
			return os.Rename(h.Paths.Settled(), h.root+"/aside")
		}, func() error { return os.Rename(h.root+"/aside", h.Paths.Settled()) }},
	} {
		must(t, tamper[0]())
		if name == "that is a link" {
			must(t, os.Symlink(h.root+"/aside", h.Paths.Settled()))
		}
		if h.looks() {
			t.Errorf("a record %s is gone by", name)
		}
		must(t, tamper[1]())
	}
	t.Run("of another environment", func(t *testing.T) {
		t.Setenv("TELEPORT_UPDATE_DATA_DIR", "/elsewhere")
		if h.looks() {
			t.Error("it is gone by")
		}
	})
	t.Setenv("INVOCATION_ID", "another run of the unit")
	if !h.looks() {
		t.Error("the record as it was is not gone by: this test shows nothing")
	}
}

func TestAnotherAnswerOrAHeldLockMakesTheRunAWholeOne(t *testing.T) {
	h := newCalmHost(t)
	was, err := os.ReadFile(h.Paths.LastAnswer())
	must(t, err)
	for name, change := range map[string]func(*world){
		"another version":    func(w *world) { w.wants.Version = "1.1.0" },
		"no version":         func(w *world) { w.wants.Version = "" },
		"another jitter":     func(w *world) { w.jitter = 7 },
		"the word to update": func(w *world) { w.wants.AutoUpdate = true },
		"an unknown group":   func(w *world) { w.wants.GroupUnknown = true },
		"an error":           func(w *world) { w.status = 500 },
	} {
		before, jitter, status := h.w.wants, h.w.jitter, h.w.status
		change(h.w)
		if h.looks() {
			t.Errorf("find answers %s, and the run is no whole one", name)
		}
		h.w.wants, h.w.jitter, h.w.status = before, jitter, status
	}
	unlock, err := state.Lock(t.Context(), h.Paths.UpdateLock(), 0)
	must(t, err)
	if h.looks() {
		t.Error("another updater is at work, and the run is no whole one")
	}
	unlock()
	if now, err := os.ReadFile(h.Paths.LastAnswer()); err != nil || !bytes.Equal(now, was) {
		t.Errorf("a look that does not apply wrote find.json: %s, %v", now, err)
	}
	if !h.looks() {
		t.Error("with the answer as it was the look does not apply: this test shows nothing")
	}
}

func TestARunWithMoreToSayLeavesNoRecord(t *testing.T) {
	for name, change := range map[string]func(h *calmHost){
		"a repair":           func(h *calmHost) { must(h.T, os.Remove(h.Paths.Unit())) },
		"a warning":          func(h *calmHost) { writeFile(h.T, filepath.Join(h.Paths.DataDir, "host_uuid"), "none") },
		"an old version":     func(h *calmHost) { writeFile(h.T, filepath.Join(h.Paths.Versions(), "0.9.0", "sha256"), "x") },
		"another version":    func(h *calmHost) { h.w.wants.Version = "1.1.0" },
		"find fails":         func(h *calmHost) { h.w.status = 500 },
		"a person's command": func(h *calmHost) { h.Scheduled = false; must(h.T, os.Remove(h.Paths.Settled())) },
		"a change meanwhile": func(h *calmHost) {
			h.Now = func() time.Time {
				must(h.T, os.Chmod(h.Paths.Unit(), 0o600)) // it has been looked at by then
				return time.Now()
			}
		},
		"metrics to be written": func(h *calmHost) { h.c.Spec.TextfileDir = h.root; h.save(); must(h.T, os.Remove(h.Paths.Settled())) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newCalmHost(t)
			change(h)
			_ = h.Update(t.Context(), UpdateOptions{})
			h.Settle(t.Context(), "update")
			if s, ok := loadSettled(h.Paths.Settled()); ok {
				t.Errorf("there is a record: %q", s.Reason)
			}
		})
	}
}

// Where systemd runs, the process that serves is a premise.
func TestOnlyAnAgentThatIsWellIsGoneBy(t *testing.T) {
	h := newCalmHost(t)
	for name, tc := range map[string]struct {
		change     func(*systemd.Unit, *string)
		conditions []Condition
		ok         bool
	}{
		"well":              {ok: true},
		"stopped":           {change: func(u *systemd.Unit, _ *string) { u.ActiveState, u.SubState = "inactive", "dead" }},
		"between two":       {change: func(u *systemd.Unit, e *string) { *e = "" }},
		"reloading":         {change: func(u *systemd.Unit, _ *string) { u.ActiveState = "reloading" }},
		"to be restarted":   {conditions: []Condition{{Type: RestartPending}}},
		"not yet proven":    {conditions: []Condition{{Type: Unproven}}},
		"of a masked timer": {conditions: []Condition{{Type: TimerOff}}},
	} {
		h.Connect = sightOf(h.Installer, tc.change)
		premises, ok := h.servers(t.Context(), Report{Conditions: tc.conditions})
		if ok != tc.ok || ok && (len(premises) != 1 || premises[0].Care != process || premises[0].Path != "4711") {
			t.Errorf("an agent that is %s: %v, %+v", name, ok, premises)
		}
	}
}

func TestAnAgentThatWasStartedAgainIsAnotherOne(t *testing.T) {
	agent := exec.Command("sleep", "60")
	must(t, agent.Start())
	p := procfs.Host().Process(agent.Process.Pid)
	seen := premise{strconv.Itoa(p.PID), process, seenOf(*p)}
	if !seen.holds() {
		t.Error("the process is not the same")
	}
	must(t, agent.Process.Kill())
	_ = agent.Wait()
	if seen.holds() {
		t.Error("a process that is gone is the same")
	}
	if p := (premise{strconv.Itoa(os.Getpid()), process, seen.Seen}); p.holds() {
		t.Error("another process of that PID is the same")
	}
}
