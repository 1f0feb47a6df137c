package installer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/integration/tarball"
	"teleport-update/internal/golden"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

func TestStatusHasNamesInOneSpelling(t *testing.T) {
	type fields view.Status // which does not write itself
	golden.Tags(t, "json", fields{})
}

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
		j.From = &state.Tree{Release: version.Release{Version: "1.1.0", Edition: version.Enterprise}}
		j.To.Release = version.Release{Version: "1.2.0", Edition: version.Enterprise}
		j.Verdict.Reason = "it died"
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
		left    string                             // a version whose removal did not end
		units   func(name string, u *systemd.Unit) // the updater's own
		breaks  func(i *Installer)                 // what somebody did to the host
		policy  map[string]string                  // the files of the host's owner
		kept    bool                               // the version before is on disk
		text    string                             // of updates.yaml, where it is not as the updater writes it
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
		"unstable": {kept: true, c: enabled(nil), answer: wants11, ticks: state.Ticks{Unstable: &state.Unstable{Release: release, Count: 2, Since: noon.Add(-20 * time.Minute), Last: noon, Restarts: 31}},
			agent: func(u *systemd.Unit, executes *string) {
				u.ActiveState, u.SubState, u.NRestarts = "activating", "auto-restart", 31
				*executes = ""
			}},
		"agent-stopped": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState = "inactive", "dead"
			*executes = ""
		}},
		"agent-starting": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState, u.Since, u.InState = "activating", "start-pre", noon.Add(-time.Minute), time.Minute
			*executes = ""
		}},
		"start-waits": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.ActiveState, u.SubState, u.JobPending, u.Since, u.InState = "inactive", "dead", true, time.Time{}, time.Hour
			*executes = ""
		}},
		"no-process": {c: enabled(func(c *state.Config) { c.Spec.Enabled = false }), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.SubState = "exited"
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
		"timer-off":     {c: enabled(nil), answer: wants11, units: only("teleport-update.timer", func(u *systemd.Unit) { u.LoadState, u.ActiveState = "masked", "inactive" })},
		"timer-stopped": {c: enabled(nil), answer: wants11, units: only("teleport-update.timer", func(u *systemd.Unit) { u.ActiveState = "inactive" })},
		"timer-failed":  {c: enabled(func(c *state.Config) { c.Spec.Pinned = true }), answer: wants11, units: only("teleport-update.timer", func(u *systemd.Unit) { u.ActiveState, u.Result = "failed", "resources" })},
		"clock-wrong":   {c: enabled(nil), answer: strings.Replace(wants11, "2026-03-01T12", "2026-03-01T15", 1)},
		"run-not-made": {c: enabled(nil), answer: wants11, units: only("teleport-update.service", func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.Exit = "failed", "exit-code", systemd.ExitStatus{Code: systemd.Exited, Status: 203}
			u.StartedAt, u.ExitedAt = noon.Add(-10*time.Minute), noon.Add(-10*time.Minute)
		})},
		"no-runs": {c: enabled(nil), answer: wants11, ticks: state.Ticks{Ended: noon.Add(-5 * time.Hour)}, units: only("teleport-update.timer", func(u *systemd.Unit) {
			u.LastTrigger, u.NextTrigger = noon.Add(-5*time.Hour), noon.Add(-3*time.Hour)
		})},
		"run-failed": {c: enabled(nil), answer: wants11, ticks: state.Ticks{Ended: noon.Add(-time.Minute), Error: "read host_uuid: input/output error"}},
		"enable-failed": {c: func() *state.Config {
			c := state.EmptyConfig()
			c.Status.FirstEnable = &state.FirstEnable{Time: noon.Add(-time.Hour), Command: "teleport-update enable --proxy proxy.example.com", Error: "no such host"}
			return &c
		}()},
		"no-links": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) { must(t, os.Remove(filepath.Join(i.Machine.Host.Paths.LinkDir, "tsh"))) }},
		"foreign-link": {c: enabled(func(c *state.Config) { c.Spec.Enabled = false }), answer: wants11, breaks: func(i *Installer) {
			link := filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport")
			must(t, os.Remove(link))
			writeFile(t, link, "another program")
		}},
		"foreign-link-migrated": {c: enabled(func(c *state.Config) { c.Status.ActiveSchema = "1-2345" }), answer: wants11, agent: func(_ *systemd.Unit, executes *string) { *executes = "1.5.0" },
			breaks: func(i *Installer) {
				link := filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport")
				must(t, os.Remove(link))
				writeFile(t, link, "#!/bin/sh\necho Teleport v1.5.0 git:v1.5.0-0 go1.22\n")
				must(t, os.Chmod(link, 0o755))
				makeDatabase(t, filepath.Join(i.Machine.Host.Paths.DataDir, "proc", "sqlite.db"))
			}},
		"no-tree": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) { must(t, os.RemoveAll(filepath.Join(i.Machine.Host.Paths.Versions(), "1.1.0"))) }},
		"not-executable": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			must(t, os.Chmod(filepath.Join(i.Machine.Host.Paths.Versions(), "1.1.0", "bin", "teleport"), 0o644))
		}},
		"foreign-unit":          {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) { u.FragmentPath = "/etc/systemd/system/teleport.service" }},
		"unit-makes-a-database": {c: enabled(func(c *state.Config) { c.Status.ActiveSchema = "1234" }), answer: wants11},
		"would-not-start": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) {
			u.Name, u.Ties.Conditions = "teleport.service", []systemd.Condition{{Type: "ConditionPathExists", Parameter: "/nonexistent"}}
		}},
		"unit-unknown":    {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) { u.LoadState, u.FragmentPath, u.UnitFileState = "not-found", "", "" }},
		"units-late":      {c: enabled(nil), answer: wants11, breaks: func(i *Installer) { mountUnits(t, i) }},
		"recovery-masked": {c: enabled(nil), answer: wants11, units: only("teleport-update-recover.service", func(u *systemd.Unit) { u.LoadState = "masked" })},
		"updater-broken": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			must(t, os.Remove(filepath.Join(i.Machine.Host.Paths.UnitDir, "teleport-update.timer")))
		}},
		"other-updater": {c: enabled(nil), answer: wants12, breaks: func(i *Installer) {
			i.Machine.Host.OthersRoot = filepath.Dir(i.Machine.Host.Paths.DataDir)
			writeFile(t, filepath.Join(i.Machine.Host.OthersRoot, "/opt/teleport/default/update.yaml"), "version: v1\n")
		}},
		"exposed": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) { expose(t, i) }},
		"closed": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			must(t, os.Chmod(filepath.Join(i.Machine.Host.Paths.Versions(), "1.1.0", "bin"), 0o700))
		}},
		"systemd-out-of-reach": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) { *executes = outOfReach }},
		"settings-unknown":     {c: enabled(nil), answer: wants11, text: "  helth: {window: 1m}\n"},
		"config-broken":        {c: enabled(nil), answer: wants11, text: "  enabled: maybe\n"},
		"not-enabled":          {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) { u.UnitFileState = "disabled" }},
		"masked-and-running": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) {
			u.LoadState, u.UnitFileState = "masked", "masked"
		}},
		"masked": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, executes *string) {
			u.LoadState, u.ActiveState, u.SubState, u.UnitFileState, u.FragmentPath = "masked", "inactive", "dead", "masked", "/dev/null"
			*executes = ""
		}, breaks: func(i *Installer) { writeFile(t, i.Machine.Host.Paths.AgentConfig, "") }},
		"unproven": {c: enabled(func(c *state.Config) { c.Status.Unproven = true }), answer: wants11},
		"package-left": {c: enabled(func(c *state.Config) {
			c.Status.PackagesLeft = []state.PackageLeft{{Package: state.Package{Kind: "deb", Name: "teleport", Version: "1"}, Since: noon, Error: "it is locked"}}
		}), answer: wants11},
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
		"change-refused": {c: enabled(nil), answer: wants11, agent: func(u *systemd.Unit, _ *string) { u.Ties.RefusesStop = true }},
		"companions-old": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			for pid, service := range map[string]string{"4712": "tbot.service", "4713": "teleport.service"} {
				proc := filepath.Join(i.Processes.Proc, pid)
				writeFile(t, filepath.Join(proc, "cgroup"), "0::/system.slice/"+service+"\n")
				must(t, os.Symlink(filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "tbot"), filepath.Join(proc, "exe")))
			}
		}},
		"other-agents": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			otherAgent(t, i, filepath.Join(i.Machine.Host.Paths.Versions(), "1.0.0", "bin", "teleport"))
		}},
		"cluster-servers": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "auth_service: {enabled: yes}\n")
		}},
		"proxy-conflict": {c: enabled(nil), answer: wants11, breaks: func(i *Installer) {
			writeFile(t, i.Machine.Host.Paths.AgentConfig, "teleport: {proxy_server: \"other.example.com:443\"}\n")
		}},
		"versions-left": {c: enabled(nil), answer: wants11, left: "0.9.0"},
		"cut-off":       {c: enabled(nil), answer: wants12, journal: journal("switched")},
		"policy-broken": {c: enabled(func(c *state.Config) { c.Status.PolicySeen = &state.PolicySeen{File: true} }), answer: wants11},
		"below-minimum": {c: enabled(nil), answer: wants11, policy: map[string]string{"policy.yaml": "minimum: 1.1.5\n"}},
		"unsigned":      {c: enabled(nil), answer: wants11, policy: map[string]string{"policy.yaml": "signatures: warn\n"}},
		"rule-gone": {c: enabled(func(c *state.Config) { c.Status.PolicySeen = &state.PolicySeen{File: true, Rules: []string{"minimum"}} }), answer: wants11,
			policy: map[string]string{"policy.yaml": "signatures: off\n"}},
		"newer-journal": {c: enabled(nil), journal: journal("switched"), newer: true},
	}
	var files []string
	states, types := map[decision.State]bool{}, map[decision.Type]bool{}
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		s := scenes[name]
		i := testInstaller(t)
		i.Machine.Now, i.Version = func() time.Time { return noon }, "1.2.3"
		root := filepath.Dir(i.Machine.Host.Paths.DataDir)
		ownProc(t, i)
		if s.c != nil && s.c.Spec.ActiveVersion != "" {
			all := []version.Release{s.c.Active()}
			if s.kept {
				all = append(all, version.Release{Version: "1.0.0", Edition: version.OSS})
			}
			whole(t, i, all...)
		}
		if s.c != nil {
			writeFile(t, i.Machine.Host.Paths.Config(), "")
			must(t, s.c.Save(i.Machine.Host.Paths.Config()))
		}
		if s.answer != "" {
			writeFile(t, i.Machine.Host.Paths.LastAnswer(), s.answer)
		}
		s.ticks.DataDir, s.ticks.BootID, i.Machine.BootID = i.Machine.Host.Paths.DataDir, "boot", func() string { return "boot" }
		i.Machine.Host.Paths.RunDir = filepath.Join(root, "run")
		must(t, s.ticks.Save(i.Machine.Host.Paths.Ticks()))
		look := sightOf(i, s.agent)
		i.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
			a, err := look(ctx)
			shown := a.(seen)
			shown.units = s.units
			return shown, err
		}
		if s.left != "" {
			writeFile(t, filepath.Join(i.Machine.Host.Paths.Versions(), s.left, "bin", "teleport"), "")
		}
		if s.starts != "" {
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "cmdline"), strings.ReplaceAll(s.starts, " ", "\x00")+"\x00")
			writeFile(t, filepath.Join(i.Processes.Proc, "4711", "environ"), "")
		}
		i.Machine.Host.Paths.PolicyDir = filepath.Join(root, "etc")
		for name, text := range s.policy {
			writeFile(t, filepath.Join(i.Machine.Host.Paths.PolicyDir, name), text)
		}
		if s.breaks != nil {
			s.breaks(i)
		}
		if s.text != "" {
			text, err := os.ReadFile(i.Machine.Host.Paths.Config())
			must(t, err)
			writeFile(t, i.Machine.Host.Paths.Config(), strings.Replace(string(text), "spec:\n", "spec:\n"+s.text, 1))
		}
		if s.locked {
			unlock, err := state.Lock(t.Context(), i.Machine.Host.Paths.UpdateLock(), 0)
			must(t, err)
			defer unlock()
			i.Processes.Proc = "/proc"
		}
		if s.journal != nil {
			s.journal.Writer = "/usr/bin/teleport-update"
			if s.newer {
				s.journal.ReadableFrom = state.Schema + 1
			}
			must(t, s.journal.Save(i.Machine.Host.Paths.Journal()))
		}
		r, err := i.Status(t.Context(), StatusOptions{Offline: s.offline})
		must(t, err)
		states[r.State] = true
		for _, c := range r.Conditions {
			types[c.Type] = true
			formed(t, name, c)
			// A repair must not lift a hold; only what tells of a wait says how to end it.
			if !slices.Contains([]decision.Type{decision.HostHeld, decision.VersionBacksOff, decision.UpdateWaits}, c.Type) && strings.Contains(c.Message, "update --now") {
				t.Errorf("%s: %s advises what lifts a hold: %s", name, c.Type, c.Message)
			}
		}
		agree(t, i, name, r)
		var example strings.Builder
		r.Text(&example)
		validate(t, r)
		if name == "failing" {
			monitored(t, r)
		}
		data, err := json.MarshalIndent(r, "", "  ")
		must(t, err)
		for suffix, content := range map[string]string{".json": string(data) + "\n", ".txt": example.String()} {
			files = append(files, name+suffix)
			golden.File(t, filepath.Join("testdata", "status", name+suffix), strings.ReplaceAll(content, root, ""))
		}
	}
	golden.Folder(t, filepath.Join("testdata", "status"), files...)
	documented(t)
	for _, c := range decision.Checks {
		if !states[c.State] || !types[c.Type] {
			t.Errorf("no scene is in state %s by condition %s", c.State, c.Type)
		}
	}
}

// formed holds a condition to its form: what is wrong and what to do have all clauses of the message. What to do is a step, and neither the
// end of an error nor a look at status.
func formed(t *testing.T, name string, c decision.Condition) {
	t.Helper()
	since := regexp.MustCompile(`,? (since|at) \d{4}-\d\d-\d\dT[\d:]+Z,?`) // another line has it
	said := strings.ToLower(since.ReplaceAllString(c.What+"\n"+c.Do, ""))
	for _, clause := range regexp.MustCompile(`: |; |\. `).Split(since.ReplaceAllString(c.Message, ""), -1) {
		if clause = strings.Trim(clause, ":;,. "); !strings.Contains(said, strings.ToLower(clause)) {
			t.Errorf("%s: %s loses %q: %s / %s", name, c.Type, clause, c.What, c.Do)
		}
	}
	remainder := regexp.MustCompile(`^(/\S*|line \d+.*|[a-z ]*(denied|no such file or directory|connection refused|not found))$`)
	switch {
	case c.What == "" || c.Do == "" || c.Do == c.What || c.Message == "":
		t.Errorf("%s: %s says %+v", name, c.Type, c)
	case regexp.MustCompile("`(teleport-update )?status\\b").MatchString(c.Do), remainder.MatchString(strings.Trim(c.Do, "`")):
		t.Errorf("%s: what to do about %s is no step: %s", name, c.Type, c.Do)
	case strings.Count(c.What, "`")%2 != 0, strings.Count(c.Do, "`")%2 != 0:
		t.Errorf("%s: a command of %s is cut: %s / %s", name, c.Type, c.What, c.Do)
	}
}

// agree holds verify to what status says: both read the same checks.
func agree(t *testing.T, i *Installer, name string, r view.Status) {
	t.Helper()
	findings, err := i.Verify(t.Context())
	if r.State == decision.Updating {
		if err != nil || len(findings) != 1 || !findings[0].OK {
			t.Errorf("%s: verify alarms in the middle of a transaction: %+v (%v)", name, findings, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: verify ends with %v, and status is %s", name, err, r.State)
	}
	for _, c := range r.Conditions {
		said := slices.ContainsFunc(findings, func(f view.Finding) bool {
			return f.Type == c.Type && f.Detail == c.Message && f.OK == (c.Severity != decision.Fault && c.Severity != decision.Blind)
		})
		if !said && c.Type != decision.TargetUnknown { // verify does not ask find
			t.Errorf("%s: verify says nothing of %s: %s", name, c.Type, c.Message)
		}
	}
	for _, f := range findings {
		if f.OK || f.Type == "" {
			continue
		}
		if !slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == f.Type }) {
			t.Errorf("%s: verify alone says %s: %s", name, f.Subject, f.Detail)
		}
	}
}

// documented compares the part of docs/status.md about states and conditions with the checks.
func documented(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("\nThe gravest come first. What a person has set hides no fault.\n\n| condition | kind | what it means | the state that it makes |\n| --- | --- | --- | --- |\n")
	for _, c := range decision.Checks {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", c.Type, c.Severity, c.Means, c.State)
	}
	fmt.Fprintf(&b, "| none | | the host is well: the agent runs what is linked, wanted and proven, by the unit that systemd has loaded and finds at the next boot, and the updater's last run ended well | `%s` |\n", decision.Idle)
	var whole, partly []string
	for _, c := range decision.Checks {
		switch long, part := c.TakesLong(); {
		case part:
			partly = append(partly, "`"+string(c.Type)+"`")
		case long:
			whole = append(whole, "`"+string(c.Type)+"`")
		}
	}
	fmt.Fprintf(&b, "\nOnly `status` and `verify` look for %s, and at all that makes %s: it takes too long for each run of the timer. A run may write `idle` into "+
		"`/run/teleport-update/status.json` while `status` names one of these. Its metrics leave out what it did not look at.\n",
		strings.Join(whole, ", "), strings.Join(partly, " or "))
	golden.Part(t, filepath.Join("..", "docs", "status.md"), "the checks of installer/decision", b.String())
}

// monitored holds the examples of docs/monitor.md to what a host says.
func monitored(t *testing.T, r view.Status) {
	t.Helper()
	summary, err := json.MarshalIndent(r.Summary(noon), "", "  ")
	must(t, err)
	var metrics strings.Builder
	must(t, r.OpenMetrics(&metrics))
	path := filepath.Join("..", "docs", "monitor.md")
	golden.Part(t, path, "a host that fails, its summary", fmt.Sprintf("\n```json\n%s\n```\n", summary))
	table := "\n| metric | what |\n| --- | --- |\n"
	for line := range strings.Lines(metrics.String()) {
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, what, _ := strings.Cut(strings.TrimSpace(help), " ")
			table += fmt.Sprintf("| `%s` | %s |\n", name, what)
		}
	}
	golden.Part(t, path, "the metrics of a host", table)
}

// sightOf connects to an agent that runs version 1.1.0, if nothing else is said.
func sightOf(i *Installer, change func(u *systemd.Unit, executes *string)) func(context.Context) (transaction.Agent, error) {
	u := systemd.Unit{LoadState: "loaded", ActiveState: "active", SubState: "running", UnitFileState: "enabled", Since: noon.Add(-24 * time.Hour),
		FragmentPath: i.Machine.Host.Paths.Unit(), ExecStart: filepath.Join(i.Machine.Host.Paths.LinkDir, "teleport")}
	executes := "1.1.0"
	if change != nil {
		change(&u, &executes)
	}
	if executes == outOfReach {
		return func(context.Context) (transaction.Agent, error) { return seen{blind: systemd.ErrUnreachable}, nil }
	}
	sight := transaction.Sight{Unit: u, State: transaction.StateOf(u)}
	if u.ActiveState == "" {
		sight = transaction.Sight{State: state.AgentUnknown}
	} else if executes != "" {
		sight.Main = procfs.Process{ID: procfs.ID{PID: 4711}, Exe: filepath.Join(i.Machine.Host.Paths.Versions(), executes, "bin", "teleport")}
	}
	return func(context.Context) (transaction.Agent, error) { return seen{sight: sight}, nil }
}

// outOfReach is said of an agent that systemd does not answer for.
const outOfReach = "out of reach"

// seen is an agent that can only be looked at, with the updater's own units.
type seen struct {
	transaction.Agent
	sight transaction.Sight
	blind error
	units func(name string, u *systemd.Unit)
}

func (seen) Try(context.Context, func(string) []byte) (systemd.Tried, error) {
	well := systemd.Unit{ActiveState: "active", Result: "success", Exit: systemd.ExitStatus{Code: systemd.Exited}}
	return systemd.Tried{Unit: well, Output: "Teleport v1.0.0"}, nil
}

func (s seen) Blockers(_ context.Context, agent transaction.Sight) ([]string, error) {
	if agent.JobPending {
		return []string{"cloud-final.service"}, nil
	}
	return nil, nil
}

func (s seen) ActiveOf(_ context.Context, units []string) ([]string, error) { return units, nil }

func (s seen) Unit(_ context.Context, name string) (systemd.Unit, error) {
	if s.blind != nil || s.sight.State == state.AgentUnknown {
		return systemd.Unit{}, s.blind
	}
	u := systemd.Unit{Name: name, LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success",
		DropIns: []string{"/usr/local/lib/systemd/system/" + name + ".d/zzzz-teleport-update.conf"}}
	if strings.HasSuffix(name, ".timer") {
		u.ActiveState, u.SubState, u.UnitFileState, u.NextTrigger = "active", "waiting", "enabled", noon.Add(10*time.Minute)
	}
	if s.units != nil {
		s.units(name, &u)
	}
	return u, nil
}

func (s seen) Look(context.Context) (transaction.Sight, error) { return s.sight, s.blind }
func (s seen) Stopping(context.Context) (bool, error)          { return false, nil }
func (s seen) Close()                                          {}

// only changes one of the updater's own units.
func only(unit string, change func(*systemd.Unit)) func(string, *systemd.Unit) {
	return func(name string, u *systemd.Unit) {
		if name == unit {
			change(u)
		}
	}
}

// whole puts versions on disk, links the first one, and writes the updater's own units: a
// host with which nothing is wrong.
func whole(t *testing.T, i *Installer, releases ...version.Release) {
	t.Helper()
	dir := t.TempDir()
	c := state.EmptyConfig()
	c.Spec.URLTemplates = []string{"file://" + dir + "/{{.Version}}.tar.gz"}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	for n, r := range releases {
		items := tarball.Sound(r.Version)
		if r.Edition.Enterprise() {
			items = tarball.Enterprise(items)
		}
		data := tarball.Gzip(tarball.Of(items...))
		writeFile(t, filepath.Join(dir, r.Version+".tar.gz"), string(data))
		writeFile(t, filepath.Join(dir, r.Version+".tar.gz.sha256"), fmt.Sprintf("%x\n", sha256.Sum256(data)))
		tree, unclaim, err := i.obtainer().obtain(t.Context(), wanted{Release: r, Config: c, Spec: c.Spec})
		must(t, err)
		unclaim()
		if n == 0 {
			must(t, i.Machine.Host.Repair(tree))
		}
	}
	_, err := i.Machine.Host.OwnUnits().Write()
	must(t, err)
	i.Machine.AskRescuer = func(context.Context) (string, int, error) { return "/proc/self/exe", state.Schema, nil }
	for dir := i.Machine.Host.Paths.DataDir; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			must(t, os.Chmod(dir, info.Mode().Perm()|0o055)) // others may run programs
		}
	}
}

// ownProc gives the host a kernel of its own, which tells of this process and of one mount.
func ownProc(t *testing.T, i *Installer) {
	t.Helper()
	i.Processes.Proc = filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "proc")
	writeFile(t, filepath.Join(i.Processes.Proc, "self", "mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
	must(t, os.Symlink(fmt.Sprintf("/proc/%d", os.Getpid()), filepath.Join(i.Processes.Proc, strconv.Itoa(os.Getpid()))))
}

// makeDatabase makes a database of an agent.
func makeDatabase(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	db, err := sqlite3.Open(path)
	must(t, err)
	must(t, db.Exec("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB)"))
	must(t, db.Close())
}

// mountUnits has the folder of the units be a mount.
func mountUnits(t *testing.T, i *Installer) {
	t.Helper()
	writeFile(t, filepath.Join(i.Processes.Proc, "self", "mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / "+i.Machine.Host.Paths.UnitDir+" rw - ext4 /dev/sda2 rw\n")
}

// expose has a template lead into a folder that everybody may write in.
func expose(t *testing.T, i *Installer) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(i.Machine.Host.Paths.DataDir), "media")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chmod(dir, 0o777))
	c, err := i.Machine.Host.Paths.LoadConfig()
	must(t, err)
	c.Spec.URLTemplates = []string{"file://" + dir + "/{{.Version}}.tar.gz"}
	must(t, c.Save(i.Machine.Host.Paths.Config()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
