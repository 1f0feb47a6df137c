package installer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
)

// A first enable that failed is told with the whole command, without its secrets, until one
// succeeds.
func TestAFirstEnableThatFailedNamesItsWholeCommand(t *testing.T) {
	i := testInstaller(t)
	places := i.Machine.Host.Paths
	// Of the places, the ones that are not the usual: the flags come before the command.
	places.LinkDir, places.UnitDir, places.AgentConfig = state.DefaultPaths().LinkDir, "/etc/systemd/system", "/etc/it's/node.yaml"
	i.Machine.Host.Paths = places
	var minute []state.Given
	for _, r := range state.Settings() {
		if r.Flag == "health-window" {
			minute = append(minute, state.Given{Row: r, Text: "1m0s"})
		}
	}
	opts := EnableOptions{Proxy: "proxy.example.com", Group: "it's", Templates: []string{"https://ann:marked@mirror.example.com/{{.Version}}.tar.gz"}, Settings: minute, AllowDowngrade: true}
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	c := state.EmptyConfig()
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	i.saveFirstEnable(t.Context(), configOf(t, i), opts, errors.New("no such host"))
	r, err := i.Status(t.Context(), StatusOptions{Offline: true})
	must(t, err)
	for _, part := range []string{"no such host", "`teleport-update --data-dir " + places.DataDir + " --unit-dir /etc/systemd/system --agent-config '/etc/it'\\''s/node.yaml' enable " +
		"--proxy proxy.example.com --group 'it'\\''s' --template 'https://", "--health-window 1m0s --allow-downgrade"} {
		if !strings.Contains(r.Explanation, part) {
			t.Errorf("status lacks %q: %s", part, r.Explanation)
		}
	}
	if r.State != decision.NeedsAttention || strings.Contains(r.Explanation, "marked") {
		t.Errorf("%s: %s", r.State, r.Explanation)
	}
	i.saveFirstEnable(t.Context(), configOf(t, i), opts, nil)
	if r, err = i.Status(t.Context(), StatusOptions{Offline: true}); err != nil || r.State != decision.Disabled {
		t.Errorf("after a success: %s, %v", r.State, err)
	}
}

// Nobody reads what a first enable of cloud-init's says, so status says it: also of one that did not learn which version the
// cluster wants. Nothing else is there then, and the timer's runs leave the host alone.
func TestAFirstEnableThatLearnsNothingIsToldByStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(*world)
		told   bool
	}{
		"find answers 404": {func(w *world) { w.status = 404 }, true},
		"nothing answers":  {func(w *world) { w.url = "http://127.0.0.1:1" }, true},
		"it is refused":    {func(w *world) { w.wants.Version = "" }, false},
		"updates.yaml is lost": {func(w *world) {
			w.status = 404
			writeFile(t, filepath.Join(w.Machine.Host.Paths.Original(), "before.json"), "{}")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Machine.Scheduled = false
			must(t, os.Remove(w.Machine.Host.Paths.Config()))
			tc.breaks(w)
			err := w.Enable(t.Context(), EnableOptions{Proxy: w.url, Group: "it"})
			if err == nil {
				t.Fatal("it succeeded")
			}
			told := host.Exists(w.Machine.Host.Paths.Config())
			r := w.state()
			named := strings.HasPrefix(r.Explanation, "the first enable failed, and nothing tries it again by itself: ") &&
				strings.Contains(r.Explanation, "nothing was changed; remove the cause, then `teleport-update ") && strings.Contains(r.Explanation, " enable --proxy "+w.url+" --group it`")
			if told != tc.told || named != tc.told {
				t.Fatalf("updates.yaml: %v; status: %s: %s (%v)", told, r.State, r.Explanation, err)
			}
			if !told {
				return
			}
			if c := configOf(t, w.Installer); c.Spec.Enabled || c.Spec.Proxy != "" || c.Spec.ActiveVersion != "" {
				t.Errorf("settings are kept: %+v", c.Spec)
			}
			w.Machine.Scheduled = true
			finds, files := w.finds, listing(t, w.Machine.Host.Paths.DataDir)
			if _, err := w.tick(); err != nil || w.finds != finds || listing(t, w.Machine.Host.Paths.DataDir) != files {
				t.Errorf("a run of the timer does something: %v", err)
			}
		})
	}
}

// A transaction says in a process of its own why it failed: its exit code is no cause.
func TestAFirstEnableThatFailedNamesItsCause(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Machine.Host.Paths.Config(), "")
	c := state.EmptyConfig()
	c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.0.0", Result: state.FailedEarly, Error: "mounted noexec"}
	must(t, c.Save(i.Machine.Host.Paths.Config()))
	for failed, says := range map[error]string{
		&transaction.ExitError{Code: 1}: "mounted noexec",
		errors.New("no such host"):      "no such host",
	} {
		i.saveFirstEnable(t.Context(), configOf(t, i), EnableOptions{}, failed)
		if r, err := i.Status(t.Context(), StatusOptions{Offline: true}); err != nil || !strings.Contains(r.Explanation, "by itself: "+says+"; remove the cause") {
			t.Errorf("%v: %s, %v", failed, r.Explanation, err)
		}
		i.Machine.Scheduled = true
		run := &tick{i: i}
		if run.remember(failed, nil); run.memory.Error != says {
			t.Errorf("%v: the run ended with %q", failed, run.memory.Error)
		}
	}
}

// A program that the host does not let run says nothing of its version.
func TestWhatTheHostDoesNotLetRunIsNotHeldAgainstTheVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		cause  error
		counts bool
	}{
		"noexec":          {unix.EACCES, false},
		"a full disk":     {unix.ENOSPC, false},
		"an exit status":  {errors.New("exit status 1"), true},
		"another machine": {unix.ENOEXEC, true},
	} {
		s := newShelf(t)
		w := wanted{Release: version.Release{Version: "1.1.0", Edition: version.OSS}, Config: s.c, Spec: s.c.Spec}
		cause := &SmokeError{Release: state.Tree{Release: w.Release, SHA256: strings.Repeat("a", 64)}, Err: fmt.Errorf("run it: %w", tc.cause)}
		_ = s.obtainer().recordEarlyFailure(t.Context(), w, cause)
		c, err := s.Machine.Host.Paths.LoadConfig()
		must(t, err)
		if (c.Status.Failed != nil) != tc.counts || explained(cause) != tc.counts {
			t.Errorf("%s: it is held against the version: %v; it has a place of its own in status: %v", name, c.Status.Failed != nil, explained(cause))
		}
	}
}
