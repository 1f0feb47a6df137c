package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/golden"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

func TestStatusHasNamesInOneSpelling(t *testing.T) { golden.Tags(t, "json", Report{}) }

// Scripts read the one, people the other.
func TestStatusKeepsItsForm(t *testing.T) {
	enabled := func(change func(*state.Config)) *state.Config {
		c := state.EmptyConfig()
		c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Group: "dev", Enabled: true, ActiveVersion: "1.1.0"}
		c.Status = state.Status{ActiveEdition: version.Enterprise, PreviousVersion: "1.0.0", PreviousEdition: version.OSS,
			LastUpdate: &state.LastUpdate{Time: noon, Target: "1.1.0", TargetEdition: version.Enterprise, Result: state.Succeeded}}
		if change != nil {
			change(&c)
		}
		return &c
	}
	failed := func(c *state.Config) {
		c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.2.0", Result: state.RolledBack, Error: "it died", SkippedBackup: true}
		c.Status.Failed = &state.Failed{Version: "1.2.0", Attempts: 1, NextAttempt: noon.Add(time.Hour), Error: "it died"}
	}
	journal := func(phase state.Phase) *state.Journal {
		j := &state.Journal{ID: "x", BootID: "boot", Started: noon, Phase: phase}
		if phase != "uninstalling" {
			j.From = &state.Tree{Release: version.Release{Version: "1.1.0", Edition: version.Enterprise}}
			j.To.Release = version.Release{Version: "1.2.0", Edition: version.Enterprise}
			j.Verdict.Reason = "it died"
		}
		return j
	}
	const wants12 = `{"time":"2026-03-01T12:00:00Z","proxy":"http://127.0.0.1:1","group":"dev","version":"1.2.0","edition":"enterprise","auto_update":true,"jitter_seconds":60}`
	wants11 := strings.Replace(wants12, "1.2.0", "1.1.0", 1)
	release := version.Release{Version: "1.1.0", Edition: version.Enterprise}
	scenes := map[string]struct {
		c       *state.Config
		answer  string
		journal *state.Journal
		newer   bool
		locked  bool
		offline bool
		agent   func(u *systemd.Unit, executes *string)
		starts  string // the words with which the agent was started
		ticks   state.Ticks
		left    string            // a version whose removal did not end
		timer   string            // why no run starts
		policy  map[string]string // the files of the host's owner
	}{
		"never-enabled":    {},
		"idle":             {c: enabled(nil), answer: wants11},
		"no-systemd":       {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) { u.ActiveState = "" }},
		"no-version-named": {c: enabled(nil), answer: `{"time":"2026-03-01T12:00:00Z","proxy":"http://127.0.0.1:1","group":"dev"}`, offline: true},
		"never-asked":      {c: enabled(nil)},
		"updating":         {c: enabled(nil), answer: wants12, journal: journal("switched"), locked: true},
		"find-unreachable": {c: enabled(nil), answer: wants11, ticks: state.Ticks{
			Unreachable: &state.Unreachable{Since: noon.Add(-time.Hour / 2), Runs: 3, Error: "ask http://127.0.0.1:1: connection refused"}}},
		"failing": {c: enabled(nil), answer: wants12, ticks: state.Ticks{Failing: &state.Failing{
			Count: 9, First: noon.Add(-2 * time.Hour), Last: noon.Add(-10 * time.Minute), NextAttempt: noon.Add(20 * time.Minute),
			Error: "fetch version 1.2.0: 404 Not Found; the agent stays on version 1.1.0: the next run tries again"}}},
		"unstable": {c: enabled(nil), answer: wants11, ticks: state.Ticks{Unstable: &state.Unstable{Release: release, Count: 2, Since: noon.Add(-20 * time.Minute), Last: noon, Restarts: 31}},
			agent: func(u *systemd.Unit, executes *string) {
				u.ActiveState, u.SubState, u.NRestarts = "activating", "auto-restart", 31
				*executes = ""
			}},
		"agent-stopped": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState = "inactive", "dead"
			*executes = ""
		}},
		"agent-not-started": {c: enabled(func(c *state.Config) { c.Status.Unproven = true }), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState, u.UnitFileState = "inactive", "dead", "disabled"
			*executes = ""
		}},
		"agent-other-version": {c: enabled(nil), answer: wants11, agent: func(_ *systemd.Unit, executes *string) { *executes = "1.0.0" }},
		"restart-pending": {c: enabled(nil), answer: wants11, starts: "teleport start --fips", agent: func(u *systemd.Unit, _ *string) {
			u.Command, u.Environment, u.User = []string{"teleport", "start"}, []string{"HTTPS_PROXY=http://proxy"}, strconv.Itoa(os.Getuid())
		}},
		"jitter":        {c: enabled(nil), answer: wants12, ticks: state.Ticks{Waiting: &state.Waiting{PID: os.Getpid(), Start: procfs.Host().Process(os.Getpid()).Start, Until: noon.Add(time.Minute)}}},
		"timer-off":     {c: enabled(nil), answer: wants11, timer: "the updater's timer is masked, and no run starts by itself: `systemctl unmask teleport-update.timer`, then `systemctl enable --now teleport-update.timer`"},
		"group-unknown": {c: enabled(nil), answer: strings.Replace(wants11, `{`, `{"group_unknown":true,`, 1)},
		"behind":        {c: enabled(nil), answer: wants12},
		"disabled":      {c: enabled(func(c *state.Config) { c.Spec.Enabled = false })},
		"pinned":        {c: enabled(func(c *state.Config) { c.Spec.Pinned, c.Status.Unproven = true, true })},
		"held": {c: enabled(func(c *state.Config) {
			c.Status.Held = &state.Held{Version: "1.2.0", Edition: version.Enterprise, Since: noon}
		}), answer: wants12},
		"backing-off": {c: enabled(failed), answer: wants12},
		"refused": {c: enabled(func(c *state.Config) {
			c.Status.Refused = &state.Refused{Version: "1.2.0", Edition: version.Enterprise, Reason: "there is no backup"}
			c.Status.PackagesLeft = []state.PackageLeft{{Package: state.Package{Kind: "deb", Name: "teleport", Version: "1"}, Since: noon, Error: "it is locked"}}
		}), answer: wants12},
		"versions-left": {c: enabled(nil), answer: wants11, left: "0.9.0"},
		"cut-off":       {c: enabled(nil), answer: wants12, journal: journal("switched")},
		"uninstalling":  {c: enabled(nil), journal: journal("uninstalling")},
		"policy-broken": {c: enabled(func(c *state.Config) { c.Status.PolicySeen = &state.PolicySeen{File: true} }), answer: wants11},
		"below-minimum": {c: enabled(nil), answer: wants11, policy: map[string]string{"policy.yaml": "minimum: 1.1.5\n"}},
		"unsigned":      {c: enabled(nil), answer: wants11, policy: map[string]string{"policy.yaml": "signatures: warn\n"}},
		"newer-journal": {c: enabled(nil), journal: journal("switched"), newer: true},
	}
	var files []string
	states, types := map[State]bool{}, map[ConditionType]bool{}
	shown := map[ConditionType]string{} // the name of a scene, then what it shows
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		s := scenes[name]
		i := testInstaller(t)
		i.Now = func() time.Time { return noon }
		root := filepath.Dir(i.Paths.DataDir)
		if s.c != nil {
			writeFile(t, i.Paths.Config(), "")
			must(t, s.c.Save(i.Paths.Config()))
		}
		if s.answer != "" {
			writeFile(t, i.Paths.LastAnswer(), s.answer)
		}
		s.ticks.DataDir, s.ticks.BootID, i.BootID = i.Paths.DataDir, "boot", func() string { return "boot" }
		i.Paths.RunDir = filepath.Join(root, "run")
		must(t, s.ticks.Save(i.Paths.Ticks()))
		look := sightOf(i, s.agent)
		i.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := look(ctx)
			shown := a.(seen)
			shown.timer = s.timer
			return shown, err
		}
		if s.left != "" {
			writeFile(t, filepath.Join(i.Paths.Versions(), s.left, "bin", "teleport"), "")
		}
		i.Paths.PolicyDir = filepath.Join(root, "etc")
		for name, text := range s.policy {
			writeFile(t, filepath.Join(i.Paths.PolicyDir, name), text)
			for file, word := range map[string]string{"edition": "enterprise\n", "manifest": "", "sha256": strings.Repeat("a", 64) + "\n"} {
				writeFile(t, filepath.Join(i.Paths.Versions(), "1.1.0", file), word)
			}
		}
		if s.starts != "" {
			i.Processes.Proc = filepath.Join(root, "proc")
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "cmdline"), strings.ReplaceAll(s.starts, " ", "\x00")+"\x00")
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "environ"), "")
		}
		if s.locked {
			unlock, err := state.Lock(t.Context(), i.Paths.UpdateLock(), 0)
			must(t, err)
			defer unlock()
		}
		if s.journal != nil {
			s.journal.Writer = "/usr/bin/teleport-update"
			if s.newer {
				s.journal.ReadableFrom = state.Schema + 1
			}
			must(t, s.journal.Save(i.Paths.Journal()))
		}
		r, err := i.Status(t.Context(), StatusOptions{Offline: s.offline})
		must(t, err)
		states[r.State] = true
		for _, c := range r.Conditions {
			types[c.Type] = true
			// A repair must not lift a hold; only what tells of a wait says how to end it.
			if !slices.Contains([]ConditionType{Held, BackingOff, UpdateWaits}, c.Type) && strings.Contains(c.Message, "update --now") {
				t.Errorf("%s: %s advises what lifts a hold: %s", name, c.Type, c.Message)
			}
		}
		var example strings.Builder
		r.Text(&example)
		short, err := json.MarshalIndent(map[string]any{"state": r.State, "conditions": r.Conditions}, "", "  ")
		must(t, err)
		first := ConditionType("") // of a host that is well
		if len(r.Conditions) > 0 {
			first = r.Conditions[0].Type
		}
		if shown[first] == "" {
			shown[first] = strings.ReplaceAll(fmt.Sprintf("```text\n%s```\n\n```json\n%s\n```\n", example.String(), short), root, "")
		}
		validate(t, r)
		if name == "failing" {
			monitored(t, r)
		}
		data, err := json.MarshalIndent(r, "", "  ")
		must(t, err)
		var text strings.Builder
		r.Text(&text)
		for suffix, content := range map[string]string{".json": string(data) + "\n", ".txt": text.String()} {
			files = append(files, name+suffix)
			golden.File(t, filepath.Join("testdata", "status", name+suffix), strings.ReplaceAll(content, root, ""))
		}
	}
	golden.Folder(t, filepath.Join("testdata", "status"), files...)
	documented(t, shown)
	for _, c := range conditionTypes {
		if !states[c.State] || !types[c.Type] {
			t.Errorf("no scene is in state %s by condition %s", c.State, c.Type)
		}
	}
}

// documented holds the part of docs/status.md about states and conditions to what the
// scenes show.
func documented(t *testing.T, shown map[ConditionType]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("\nThe gravest come first.\n\n| condition | what it means | the state that it makes |\n| --- | --- | --- |\n")
	for _, c := range conditionTypes {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", c.Type, c.Means, c.State)
	}
	fmt.Fprintf(&b, "| none | the host is well: the agent runs the version that is wanted, and the last run of the timer found it so | `%s` |\n", StateIdle)
	for _, c := range append(conditionTypes, conditionType{}) {
		if shown[c.Type] != "" {
			name := "`" + string(c.Type) + "`"
			if c.Type == "" {
				name = "A host that is well"
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s", name, shown[c.Type])
		}
	}
	golden.Part(t, filepath.Join("..", "docs", "status.md"), "installer/conditions.go and the scenes of its test", b.String())
}

// monitored holds the examples of docs/monitor.md to what a host says.
func monitored(t *testing.T, r Report) {
	t.Helper()
	summary, err := json.MarshalIndent(r.summary(noon), "", "  ")
	must(t, err)
	var metrics strings.Builder
	must(t, r.OpenMetrics(&metrics))
	path := filepath.Join("..", "docs", "monitor.md")
	golden.Part(t, path, "a host that fails, its summary", fmt.Sprintf("\n```json\n%s\n```\n", summary))
	golden.Part(t, path, "a host that fails, its metrics", fmt.Sprintf("\n```text\n%s```\n", metrics.String()))
}

// sightOf connects to an agent that runs version 1.1.0, if nothing else is said.
func sightOf(i *Installer, change func(u *systemd.Unit, executes *string)) func(context.Context) (transaction.Agent, error) {
	u := systemd.Unit{LoadState: "loaded", ActiveState: "active", SubState: "running", UnitFileState: "enabled", Since: noon.Add(-24 * time.Hour)}
	executes := "1.1.0"
	if change != nil {
		change(&u, &executes)
	}
	sight := transaction.Sight{Unit: u, State: transaction.StateOf(u)}
	if u.ActiveState == "" {
		sight.State = state.AgentUnknown
	}
	if executes != "" {
		sight.Main = procfs.Process{ID: procfs.ID{PID: 4711}, Exe: filepath.Join(i.Paths.Versions(), executes, "bin", "teleport")}
	}
	return func(context.Context) (transaction.Agent, error) { return seen{sight: sight}, nil }
}

// seen is an agent that can only be looked at.
type seen struct {
	transaction.Agent
	sight transaction.Sight
	timer string
}

func (s seen) Blockers(context.Context, transaction.Sight) ([]string, error) { return nil, nil }

func (s seen) ActiveOf(_ context.Context, units []string) ([]string, error) { return units, nil }

func (s seen) StartOther(context.Context, string) error { return nil }

func (s seen) TimerOff(context.Context, string) (string, error) { return s.timer, nil }

func (s seen) Look(context.Context) (transaction.Sight, error) { return s.sight, nil }
func (s seen) Close()                                          {}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
