package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

func TestApplyWritesOnceAndIsInForceAtOnce(t *testing.T) {
	ctx := t.Context()
	w := newStoreWorld(t)
	s := w.open()
	apply := func(text string, opts answers.ApplyOptions) (adminapi.Change, int64, find.Answer) {
		t.Helper()
		applied, err := s.Apply(ctx, parseAll(t, text), opts)
		if err != nil || len(applied.Resources) != 1 {
			t.Fatalf("%+v, %v", applied, err)
		}
		return applied.Resources[0].Change, applied.Resources[0].Resource.GetMetadata().Revision, applied.Answer
	}
	if change, revision, answer := apply(immediate, answers.ApplyOptions{DryRun: true}); change != adminapi.Created || revision != 0 || answer.Version != "17.2.1" {
		t.Errorf("a dry run says %s, revision %d, %+v", change, revision, answer)
	}
	if _, at, _ := w.other.List(ctx, ""); at != 0 || s.AnswerTo(rollout.Query{}) != unsaid {
		t.Errorf("a dry run has written: revision %d, %+v", at, s.AnswerTo(rollout.Query{}))
	}
	for i, step := range []struct {
		text     string
		change   adminapi.Change
		revision int64
		update   bool
	}{
		{immediate, adminapi.Created, 1, false},
		{enabled, adminapi.Created, 2, true},
		{immediate, adminapi.Unchanged, 1, true},
		{strings.Replace(immediate, "17.2.1", "v17.2.1", 1), adminapi.Unchanged, 1, true},
		{suspended, adminapi.Changed, 3, false},
		{enabled, adminapi.Changed, 4, true},
	} {
		change, revision, answer := apply(step.text, answers.ApplyOptions{})
		if change != step.change || revision != step.revision || answer.AutoUpdate != step.update {
			t.Errorf("step %d: %s, revision %d, %+v; want %+v", i, change, revision, answer, step)
		}
		if got := s.AnswerTo(rollout.Query{}); got != answer {
			t.Errorf("step %d: hosts are told %+v, and the one who applied it %+v", i, got, answer)
		}
	}
	if _, at, _ := w.other.List(ctx, ""); at != 4 {
		t.Errorf("the store has revision %d; what changes nothing must write nothing", at)
	}
	r, err := s.Get(ctx, rollout.KindVersion, "")
	if err != nil || r.GetMetadata().Revision != 1 || r.(*rollout.Version).Spec.Agents.TargetVersion != "17.2.1" {
		t.Errorf("Get: %+v, %v", r, err)
	}
}

func TestApplyIsBasedOnWhatItNames(t *testing.T) {
	ctx := t.Context()
	w := newStoreWorld(t)
	s := w.open()
	with := func(text string, revision int64) []rollout.Resource {
		list := parseAll(t, text)
		list[0].GetMetadata().Revision = revision
		return list
	}
	conflicts := func(what string, list []rollout.Resource, opts answers.ApplyOptions) {
		t.Helper()
		for _, opts.DryRun = range []bool{true, false} {
			_, err := s.Apply(ctx, list, opts)
			if _, ok := errors.AsType[*store.ConflictError](err); !ok {
				t.Errorf("%s: %v; want a conflict", what, err)
			}
		}
	}
	conflicts("a revision of what is not there", with(enabled, 1), answers.ApplyOptions{})
	if _, err := s.Apply(ctx, with(enabled, 0), answers.ApplyOptions{New: true}); err != nil {
		t.Errorf("a new one: %v", err)
	}
	conflicts("a new one that is there", with(suspended, 0), answers.ApplyOptions{New: true})
	w.write(disabled)
	conflicts("an old revision", with(suspended, 1), answers.ApplyOptions{})
	if _, err := s.Apply(ctx, with(suspended, 2), answers.ApplyOptions{}); err != nil {
		t.Errorf("the revision that is there: %v", err)
	}
	if _, err := s.Apply(ctx, with(enabled, 0), answers.ApplyOptions{}); err != nil {
		t.Errorf("no revision: %v", err)
	}
}

// Everybody who asks for no revision gets through, and in the end the answer is
// that of the store.
func TestAppliesAtOnceAllEndInTheStore(t *testing.T) {
	ctx := t.Context()
	w := newStoreWorld(t)
	first := w.open()
	w.options.Store = w.other
	second := w.open()
	done := make(chan error)
	const each = 8
	for i, s := range []*answers.Stored{first, second, first, second} {
		go func() {
			for n := range each {
				r := rollout.NewVersion()
				r.Spec.Agents = rollout.VersionAgents{TargetVersion: rollout.Semver(fmt.Sprintf("17.%d.%d", i, n)), Schedule: rollout.Immediate}
				if _, err := s.Apply(ctx, []rollout.Resource{r}, answers.ApplyOptions{}); err != nil {
					done <- err
					return
				}
				s.AnswerTo(rollout.Query{})
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(first.Refresh(ctx), second.Refresh(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, at, _ := w.other.List(ctx, ""); at != 4*each || first.AnswerTo(rollout.Query{}) != second.AnswerTo(rollout.Query{}) {
		t.Errorf("revision %d; %+v and %+v", at, first.AnswerTo(rollout.Query{}), second.AnswerTo(rollout.Query{}))
	}
}

func TestApplySaysWhatFollows(t *testing.T) {
	const rolloutOfIt = `{"kind":"autoupdate_agent_rollout","metadata":{"name":"autoupdate-agent-rollout"},"spec":{"start_version":"17.2.1","target_version":"17.2.1",` +
		`"schedule":"immediate","autoupdate_mode":"enabled","strategy":"halt-on-error"},"status":{"state":"active","start_time":"2025-01-01T00:00:00Z"}}`
	groups := strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: [{name: a, start_hour: 4}]}", 1)
	for _, tc := range []struct {
		name     string
		there    []string
		text     string
		releases []string
		notes    []string // each in one note
		warnings int
	}{
		{"a version without a mode", nil, immediate, nil, []string{`updates are disabled, because no mode is set ("teleport-find mode enabled" does)`}, 0},
		{"a version while the config suspends", []string{suspended}, immediate, nil, []string{"updates are suspended by autoupdate_config"}, 0},
		{"a mode that the version overrules", []string{strings.Replace(immediate, "agents: {", "agents: {mode: disabled, ", 1)}, enabled, nil, []string{"updates are disabled by autoupdate_version"}, 0},
		{"a mode that holds", []string{immediate}, enabled, nil, nil, 0},
		{"a mode without a version", nil, enabled, nil, []string{"no version is set: hosts are told the newest release"}, 0},
		{"a mode and a version", []string{suspended}, enabled + "\n---\n" + immediate, nil, nil, 0},
		{"groups, before there is a rollout", []string{immediate}, groups, nil, nil, 0},
		{"groups, while there is one", []string{enabled, immediate, rolloutOfIt}, groups, nil, []string{"these wait for the next rollout, which another version or a reset begins: spec.agents.schedules.regular"}, 0},
		{"a regular version without groups", []string{enabled}, scheduled, nil, nil, 1},
		{"a regular version with groups", []string{groups}, scheduled, nil, []string{"the start version is 17.2.0: "}, 0},
		{"a suspended group", []string{scheduled}, strings.Replace(groups, "mode: enabled", "mode: suspended", 1), nil, []string{"no host updates by itself, and no group goes on"}, 0},
		{"a timeout that sound hosts exceed", []string{enabled, immediate}, strings.Replace(groups, "start_hour: 4", "start_hour: 4, timeout_seconds: 30, jitter_seconds: 60", 1), nil, nil, 1},
		{"groups that are there already", []string{immediate, groups}, groups, nil, nil, 0},
		{"a version that is not among the releases", []string{enabled}, immediate, []string{"teleport-v17.2.0-linux-amd64-bin.tar.gz"}, nil, 1},
		{"a version that is", []string{enabled}, immediate, []string{"teleport-v17.2.1-linux-amd64-bin.tar.gz"}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newStoreWorld(t)
			for _, r := range tc.there {
				w.write(r)
			}
			if tc.releases != nil {
				w.options.Releases = releasesOf(t, tc.releases...)
			}
			applied, err := w.open().Apply(t.Context(), parseAll(t, tc.text), answers.ApplyOptions{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			ok := slices.EqualFunc(applied.Notes, tc.notes, strings.Contains)
			if !ok || len(applied.Warnings) != tc.warnings {
				t.Errorf("notes %q, warnings %q; want %q and %d", applied.Notes, applied.Warnings, tc.notes, tc.warnings)
			}
		})
	}
}

// What is said together is in force together: no host may see the half of it.
func TestApplyWritesAllOrNothing(t *testing.T) {
	ctx := t.Context()
	w := newStoreWorld(t)
	w.write(suspended)
	w.write(immediate)
	s := w.open()
	newer := strings.Replace(immediate, "17.2.1", "17.3.0", 1)
	stale := strings.Replace(newer, "name: autoupdate-version", "name: autoupdate-version, revision: 1", 1)
	for name, text := range map[string]string{
		"the second is stale": enabled + "\n---\n" + stale,
		"one kind twice":      enabled + "\n---\n" + suspended,
	} {
		if _, err := s.Apply(ctx, parseAll(t, text), answers.ApplyOptions{}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if _, at, _ := w.other.List(ctx, ""); at != 2 {
			t.Errorf("%s: the store has revision %d; want 2", name, at)
		}
	}
	for _, dryRun := range []bool{true, false} {
		applied, err := s.Apply(ctx, parseAll(t, enabled+"\n---\n"+newer), answers.ApplyOptions{DryRun: dryRun})
		if err != nil || len(applied.Resources) != 2 || applied.Answer.Version != "17.3.0" || !applied.Answer.AutoUpdate {
			t.Errorf("dry run %v: %+v, %v", dryRun, applied, err)
		}
	}
	if got := s.AnswerTo(rollout.Query{}); got.Version != "17.3.0" || !got.AutoUpdate {
		t.Errorf("hosts are told %+v", got)
	}
}

// Whatever lies in the releases folder, updates can be stopped.
func TestUpdatesCanBeStoppedThoughTheEditionIsUnclear(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabled)
	w.write(immediate)
	w.options.Releases = releasesOf(t, "teleport-ent-v17.2.1-linux-amd64-bin.tar.gz")
	s := w.open()
	before := s.AnswerTo(rollout.Query{})
	writeInto(t, "teleport-v17.2.1-linux-amd64-bin.tar.gz")
	applied, err := s.Apply(t.Context(), parseAll(t, suspended), answers.ApplyOptions{})
	if err != nil || len(applied.Warnings) != 1 || !strings.Contains(applied.Warnings[0], "enterprise as before; there are tarballs of 17.2.1 as") {
		t.Errorf("%+v, %v", applied, err)
	}
	if got := s.AnswerTo(rollout.Query{}); got.AutoUpdate || got.Edition != before.Edition || got.Version != before.Version {
		t.Errorf("hosts are told %+v; before, %+v", got, before)
	}
}

// With a schedule, what is said is what the last group is told, and each group is
// told when its turn comes.
func TestApplyOfARegularVersionSaysWhenGroupsStart(t *testing.T) {
	w := newStoreWorld(t)
	w.options.Clock = func() time.Time { return time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC) }
	const groups = "{name: dev, days: ['*'], start_hour: 13}, {name: prod, days: [Wed, Fri, Sun], start_hour: 4, jitter_seconds: 5}"
	applied, err := w.open().Apply(t.Context(), parseAll(t, scheduled+"\n---\n"+strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: ["+groups+"]}", 1)), answers.ApplyOptions{})
	if err != nil || len(applied.Groups) != 2 || len(applied.Warnings) > 0 {
		t.Fatalf("%+v, %v", applied, err)
	}
	for i, want := range []struct {
		at     string
		jitter time.Duration
	}{{"Mon 13:00", time.Minute}, {"Wed 04:00", 5 * time.Second}} {
		g := applied.Groups[i]
		if g.At.Format("Mon 15:04") != want.at || g.Answer.Version != "17.2.0" || g.Answer.AutoUpdate || g.Answer.Jitter != want.jitter {
			t.Errorf("%+v; want %+v", g, want)
		}
	}
}

// Who offers a server to others bounds their configurations: five groups, four days. What was applied before stays.
func TestAServerTakesConfigurationsWithinItsLimits(t *testing.T) {
	groups := func(n, wait int, days ...string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{name: g%d, days: [%s], start_hour: %d, wait_hours: %d}", i, cmp.Or(strings.Join(days, ", "), "'*'"), 4+i, wait))
		}
		return enabledGroups(strings.Join(list, ", "))
	}
	timeBased := func(text string) string {
		return strings.Replace(text, "schedules:", "strategy: time-based, maintenance_window_duration: 1h, schedules:", 1)
	}
	for _, tc := range []struct{ name, config, refused string }{
		{"five groups on one day", groups(5, 0), ""},
		{"six groups", groups(6, 0), "spec.agents.schedules.regular: there are 6 groups, and this server takes no more than 5 in a schedule"},
		{"four groups on four days", groups(4, 20), ""},
		{"two groups with a weekend between them", groups(2, 20, "Mon", "Tue", "Wed", "Thu"), ""},
		{"three groups with days between them", groups(3, 30), "spec.agents.schedules.regular: from the start of the first group to that of the last one it takes 98 hours, and this server takes no more than 4 days"},
		{"five groups of windows", timeBased(groups(5, 0)), ""},
		{"six groups of windows", timeBased(groups(6, 0)), "there are 6 groups"},
		{"no groups", enabled, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newStoreWorld(t)
			w.write(groups(7, 0)) // of before, or by another server
			w.options.Limits = rollout.Limits{Groups: 5, Days: 4}
			s := w.open()
			for _, dry := range []bool{true, false} {
				_, err := s.Apply(t.Context(), parseAll(t, tc.config), answers.ApplyOptions{DryRun: dry})
				if said := fmt.Sprint(err); (err == nil) != (tc.refused == "") || !strings.Contains(said, tc.refused) && err != nil {
					t.Errorf("dry run %t: %v; want %q", dry, err, tc.refused)
				}
			}
			if there := s.Resources().Config.Spec.Agents.Schedules.Regular; tc.refused != "" && len(there) != 7 {
				t.Errorf("what was refused is in force: %+v", there)
			}
		})
	}
}
