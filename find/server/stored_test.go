package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// unsaid is what hosts are told while nobody has said that they are to update.
var unsaid = func() find.Answer {
	a := base
	a.AutoUpdate = false
	return a
}()

func TestWhatHostsAreToldFromTheStore(t *testing.T) {
	answer := func(v string, e version.Edition, update bool) find.Answer {
		return find.Answer{Version: v, Edition: e, AutoUpdate: update, Jitter: time.Minute}
	}
	ent := base
	ent.Edition = version.Enterprise
	both := []string{"teleport-v17.2.1-linux-amd64-bin.tar.gz", "teleport-ent-v17.2.1-linux-amd64-bin.tar.gz"}
	for _, tc := range []struct {
		name      string
		resources []string
		base      find.Answer
		edition   version.Edition
		releases  []string
		want      find.Answer
	}{
		{"nothing in the store", nil, base, "", nil, unsaid},
		{"no version, and no mode", []string{unset}, base, "", nil, unsaid},
		{"no version, enabled", []string{enabled}, base, "", nil, base},
		{"no version, suspended", []string{suspended}, base, "", nil, answer("15.1.0", version.OSS, false)},
		{"no version, disabled", []string{disabled}, base, "", nil, answer("15.1.0", version.OSS, false)},
		{"a version without a mode", []string{immediate}, base, "", nil, answer("17.2.1", version.OSS, false)},
		{"a version, enabled", []string{immediate, enabled}, base, "", nil, answer("17.2.1", version.OSS, true)},
		{"a version, suspended", []string{suspended, immediate}, base, "", nil, answer("17.2.1", version.OSS, false)},
		{"an edition that is given", []string{immediate}, ent, version.FIPS, both, answer("17.2.1", version.FIPS, false)},
		{"the edition that the releases have of it", []string{immediate}, base, "", both[1:], answer("17.2.1", version.Enterprise, false)},
		{"a version that is not among the releases", []string{immediate}, ent, "", []string{"teleport-ent-v15.1.0-linux-amd64-bin.tar.gz"}, answer("17.2.1", version.Enterprise, false)},
		{"a regular version that somebody else wrote", []string{scheduled, enabled}, base, "", nil, answer("17.2.0", version.OSS, false)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newStoreWorld(t)
			for _, r := range tc.resources {
				w.write(r)
			}
			w.options.Base, w.options.Edition = tc.base, tc.edition
			if tc.releases != nil {
				w.options.Releases = releasesOf(t, tc.releases...)
			}
			if got := w.open().AnswerTo(rollout.Query{Group: "any", Host: "host"}); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestWhatOthersWriteIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		w.write(immediate)
		s := w.open()
		go s.Watch(t.Context(), time.Second)
		if s.AnswerTo(rollout.Query{}).AutoUpdate {
			t.Fatal("hosts update before they are to")
		}
		w.write(enabled)
		time.Sleep(time.Second)
		synctest.Wait()
		if !s.AnswerTo(rollout.Query{}).AutoUpdate {
			t.Error("a change was not taken up")
		}
	})
}

func TestWithoutTheStoreTheLastVersionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		w.write(immediate)
		w.write(enabled)
		s := w.open()
		go s.Watch(t.Context(), time.Second)
		want := s.AnswerTo(rollout.Query{})
		want.AutoUpdate = false
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(10 * time.Second)

		dir := filepath.Dir(w.path)
		move(t, dir, dir+".away")
		pass(time.Minute)
		if got := s.AnswerTo(rollout.Query{}); got != want {
			t.Errorf("without the store hosts are told %+v; want %+v", got, want)
		}
		log := w.log.String()
		if n := strings.Count(log, "the store cannot be followed"); n != 1 || !strings.Contains(log, "age=1s") || !strings.Contains(log, "the file is gone") {
			t.Errorf("it is logged %d times:\n%s", n, log)
		}

		move(t, dir+".away", dir)
		w.write(suspended)
		pass(time.Second)
		if s.AnswerTo(rollout.Query{}).AutoUpdate {
			t.Error("the store is not followed again")
		}
		if log := w.log.String(); strings.Count(log, "the store can be followed again") != 1 || !strings.Contains(log, "after=1m1s") {
			t.Errorf("the log:\n%s", log)
		}
	})
}

// A copy that is put back may have had as many changes as what it replaces.
func TestACopyOfTheSameRevisionIsRead(t *testing.T) {
	w := newStoreWorld(t)
	w.write(immediate)
	s := w.open()
	copied := filepath.Join(t.TempDir(), "copy", "store.db")
	other, err := store.OpenSQLite(t.Context(), copied)
	if err != nil {
		t.Fatal(err)
	}
	w.other = other
	w.write(strings.Replace(immediate, "17.2.1", "17.3.0", 1))
	other.Close()
	move(t, filepath.Dir(w.path), filepath.Dir(w.path)+".away")
	move(t, filepath.Dir(copied), filepath.Dir(w.path))
	if err := s.Refresh(t.Context()); err != nil || s.AnswerTo(rollout.Query{}).Version != "17.3.0" {
		t.Errorf("hosts are told %+v, %v", s.AnswerTo(rollout.Query{}), err)
	}
}

// The revisions of two stores say nothing about each other.
func TestAnotherStoreInItsPlaceIsReadAnew(t *testing.T) {
	w := newStoreWorld(t)
	w.write(immediate)
	s := w.open()
	move(t, filepath.Dir(w.path), filepath.Dir(w.path)+".away")
	if err := s.Refresh(t.Context()); err == nil {
		t.Fatal("the store is not missed")
	}
	copied, err := store.OpenSQLite(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	w.other = copied
	w.write(strings.Replace(immediate, "17.2.1", "17.3.0", 1))
	if err := s.Refresh(t.Context()); err != nil || s.AnswerTo(rollout.Query{}).Version != "17.3.0" {
		t.Errorf("hosts are told %+v, %v", s.AnswerTo(rollout.Query{}), err)
	}
}

func TestWhileAResourceIsNotUnderstoodNoHostUpdates(t *testing.T) {
	w := newStoreWorld(t)
	w.write(immediate)
	w.write(enabled)
	s := w.open()
	want := s.AnswerTo(rollout.Query{})
	want.AutoUpdate = false
	w.put(rollout.KindConfig, `{"kind":"autoupdate_config","metadata":{"name":"autoupdate-config"},"spec":{"agents":{"mode":"slowly"}}}`)
	for range 2 {
		if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), `autoupdate_config, revision 3, is not one that this version understands: spec.agents.mode: "slowly"`) {
			t.Errorf("got %v", err)
		}
	}
	if got := s.AnswerTo(rollout.Query{}); got != want {
		t.Errorf("hosts are told %+v; want %+v", got, want)
	}
	if _, err := answers.NewStored(t.Context(), w.options); err == nil {
		t.Error("a server starts on it")
	}
	if _, err := s.Apply(t.Context(), parseAll(t, strings.Replace(immediate, "17.2.1", "17.2.2", 1)), answers.ApplyOptions{}); err == nil {
		t.Error("a version is applied beside it")
	}
	// The way out is to write another.
	if _, err := s.Apply(t.Context(), parseAll(t, suspended), answers.ApplyOptions{}); err != nil {
		t.Error(err)
	}
	if s.AnswerTo(rollout.Query{}).AutoUpdate {
		t.Error("what was written after it has no effect")
	}
	w.put(rollout.KindVersion, `{"kind":"autoupdate_config","metadata":{"name":"autoupdate-config"},"spec":{}}`)
	if err := s.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "another resource") {
		t.Errorf("a resource under another key: %v", err)
	}
}

func TestReleasesThatDoNotSayWhichEditionAreAnError(t *testing.T) {
	w := newStoreWorld(t)
	w.options.Releases = releasesOf(t, "teleport-v17.2.1-linux-amd64-bin.tar.gz", "teleport-ent-v17.2.1-linux-amd64-bin.tar.gz")
	s := w.open()
	_, err := s.Apply(t.Context(), parseAll(t, immediate), answers.ApplyOptions{})
	if _, ok := errors.AsType[*parts.RefusedError](err); !ok || !strings.Contains(err.Error(), "say which edition") {
		t.Errorf("got %v", err)
	}
	if s.AnswerTo(rollout.Query{}) != unsaid {
		t.Errorf("it was taken all the same")
	}
}

func TestReloadLooksAtTheReleasesAgain(t *testing.T) {
	w := newStoreWorld(t)
	w.write(immediate)
	w.options.Releases = releasesOf(t)
	s := w.open()
	if log := w.log.String(); !strings.Contains(log, "there is no tarball of this version and edition") {
		t.Errorf("a missing tarball is not logged:\n%s", log)
	}
	writeInto(t, "teleport-ent-v17.2.1-linux-amd64-bin.tar.gz")
	if err := s.Refresh(t.Context()); err != nil || s.AnswerTo(rollout.Query{}).Edition != version.OSS {
		t.Errorf("%v, %+v", err, s.AnswerTo(rollout.Query{}))
	}
	if err := s.Reload(); err != nil || s.AnswerTo(rollout.Query{}).Edition != version.Enterprise {
		t.Errorf("after Reload: %v, %+v", err, s.AnswerTo(rollout.Query{}))
	}
}

// releasesDir is the folder of the releases of a test.
func releasesDir(t *testing.T) string {
	return filepath.Join(os.TempDir(), "releases-of-"+strings.ReplaceAll(t.Name(), "/", "-"))
}

func releasesOf(t *testing.T, names ...string) *files.Releases {
	t.Helper()
	dir := releasesDir(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r, err := files.OpenReleases(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	writeInto(t, names...)
	return r
}

func writeInto(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, name := range []string{name, name + ".sha256"} {
			if err := os.WriteFile(filepath.Join(releasesDir(t), name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A host learns that its group is in no schedule; not where there are no groups, and
// not where it names none.
func TestAHostIsToldThatItsGroupIsUnknown(t *testing.T) {
	for _, tc := range []struct {
		config, group string
		want          bool
	}{
		{enabledGroups("{name: a, start_hour: 4}"), "b", true},
		{enabledGroups("{name: a, start_hour: 4}"), "a", false},
		{enabledGroups("{name: a, start_hour: 4}"), "", false},
		{enabled, "b", false},
	} {
		w := newStoreWorld(t)
		w.write(scheduled)
		w.write(tc.config)
		if got := w.open().AnswerTo(rollout.Query{Group: tc.group}).GroupUnknown; got != tc.want {
			t.Errorf("group %q: unknown is %v; want %v, by\n%s", tc.group, got, tc.want, tc.config)
		}
	}
}

// A channel follows the rollout of the store, and what stops the rollout stops it.
func TestAChannelFollowsTheStore(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	c := w.control(clock, w.store)
	expect := func(want string) {
		t.Helper()
		c.stored.Refresh(t.Context())
		v, critical := c.stored.Channel("dev")
		if got := v + map[bool]string{true: " critical"}[critical]; got != want {
			t.Errorf("the channel says %q; want %q", got, want)
		}
	}
	expect("")
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	expect("15.1.0") // the newest release, which hosts are told
	w.write(scheduled)
	c.tick()
	expect("") // it is not the turn of the group
	if window, ok := c.stored.Window("dev"); !ok || strings.Join(window.OnCalendar(), "") != "*-*-* 12:00,10,20,30,40,50:00 UTC" {
		t.Errorf("the window is %+v", window)
	}
	clock.pass(time.Hour)
	c.tick()
	expect("17.2.1")
	w.write(strings.Replace(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"), "mode: enabled", "mode: suspended", 1))
	expect("")
}

func TestClientToolsAreToldWhatTheResourcesSay(t *testing.T) {
	tools := func(s string) string { return strings.Replace(enabled, "spec: {", "spec: {tools: {mode: "+s+"}, ", 1) }
	for name, tc := range map[string]struct {
		config, version string
		want            find.Answer
	}{
		"nothing":             {enabled, immediate, find.Answer{}},
		"enabled":             {tools("enabled"), immediate, find.Answer{ToolsAutoUpdate: true}},
		"disabled":            {tools("disabled"), immediate, find.Answer{}},
		"a version":           {tools("enabled"), strings.Replace(immediate, "spec: {", "spec: {tools: {target_version: v17.1.0}, ", 1), find.Answer{ToolsAutoUpdate: true, ToolsVersion: "17.1.0"}},
		"without any version": {tools("enabled"), "", find.Answer{ToolsAutoUpdate: true}},
	} {
		w := newStoreWorld(t)
		w.options.Log = slog.New(slog.DiscardHandler)
		for _, r := range []string{tc.config, tc.version} {
			if r != "" {
				w.write(r)
			}
		}
		a := w.open().AnswerTo(rollout.Query{})
		if a.ToolsAutoUpdate != tc.want.ToolsAutoUpdate || a.ToolsVersion != tc.want.ToolsVersion {
			t.Errorf("%s: %+v", name, a)
		}
		body, err := a.Body()
		if want := fmt.Sprintf(`"tools_version":"%s","tools_autoupdate":%t`, cmp.Or(tc.want.ToolsVersion, a.Version), tc.want.ToolsAutoUpdate); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v; want %s", name, body, err, want)
		}
	}
}
