package installer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

func testInstaller(t *testing.T) *Installer {
	t.Helper()
	root := t.TempDir()
	return New(state.Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
	}, slog.New(slog.DiscardHandler))
}

const wholeConfig = `version: v1
kind: agent_versions
spec: {proxy: mytenant.teleport.sh, group: staging, enabled: true, active_version: 15.1.1}
status: {active_edition: enterprise, previous_version: 15.1.0, previous_edition: enterprise}
`

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAJournalThatCannotBeActedOnStopsEverything(t *testing.T) {
	const update = "`teleport-update update`"
	for name, tc := range map[string]struct{ content, want, advice string }{
		"cut off":         {`{"schema": 1, "phase": "swi`, "cannot be read", update},
		"empty":           {``, "cannot be read", update},
		"newer":           {`{"schema": 99, "phase": "teleported", "new": 1}`, "newer updater", "upgrade teleport-update"},
		"unknown phase":   {`{"schema": 1, "phase": "teleported"}`, "unknown phase", update},
		"another's words": {`{"schema": 1, "phase": 7}`, "cannot be read", update},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			writeFile(t, i.Paths.Journal(), tc.content)
			writeFile(t, i.Paths.Config(), wholeConfig)
			r, err := i.Status(context.Background(), StatusOptions{Offline: true})
			if err != nil || r.State != StateNeedsAttention || !strings.Contains(r.Explanation, tc.want) || !strings.Contains(r.Explanation, tc.advice) {
				t.Errorf("status is %s: %s (%v); want what is wrong, and %q", r.State, r.Explanation, err, tc.advice)
			}
			err = i.Update(context.Background(), UpdateOptions{})
			if _, person := errors.AsType[*failure.NeedsPersonError](err); !person || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want a NeedsPersonError with %q", err, tc.want)
			}
			if !host.Exists(i.Paths.Journal()) {
				t.Error("the journal is gone: what it knew is lost")
			}
		})
	}
}

func TestStateWords(t *testing.T) {
	on := state.Spec{Enabled: true, ActiveVersion: "1.0.0"}
	oss := state.Status{ActiveEdition: version.OSS}
	desired := func(v string) Report { return Report{VersionDesired: known(v), EditionDesired: known("oss")} }
	with := func(s state.Status, change func(*state.Status)) state.Status { change(&s); return s }
	open := desired("1.1.0")
	open.OpenTransaction = &OpenState{To: "1.1.0", Phase: "switched", explanation: "cut off"}
	running := desired("1.1.0")
	running.OpenTransaction = &OpenState{To: "1.1.0", Phase: "switched", Running: true, explanation: "at work"}
	for _, tc := range []struct {
		name   string
		c      state.Config
		r      Report
		agent  agentView
		ticks  state.Ticks
		broken error
		want   State
	}{
		{name: "never enabled", want: StateDisabled},
		{name: "as wanted", c: state.Config{Spec: on, Status: oss}, r: desired("1.0.0"), want: StateIdle},
		{name: "find unheard", c: state.Config{Spec: on, Status: oss}, want: StateWaiting},
		{name: "pinned", c: state.Config{Spec: state.Spec{Enabled: true, Pinned: true}}, want: StatePinned},
		{name: "disabled says more than pinned", c: state.Config{Spec: state.Spec{Pinned: true}}, want: StateDisabled},
		{name: "held", c: state.Config{Spec: on, Status: with(oss, func(s *state.Status) { s.Held = &state.Held{Version: "1.1.0", Edition: version.OSS} })}, r: desired("1.1.0"), want: StateHeld},
		{name: "a hold that find has left", c: state.Config{Spec: on, Status: with(oss, func(s *state.Status) { s.Held = &state.Held{Version: "1.1.0", Edition: version.OSS} })}, r: desired("1.2.0"), want: StateWaiting},
		{name: "backing off", c: state.Config{Spec: on, Status: with(oss, func(s *state.Status) {
			s.Failed = &state.Failed{Version: "1.1.0", Edition: version.OSS, NextAttempt: noon.Add(time.Hour)}
		})}, r: desired("1.1.0"), want: StateBackingOff},
		{name: "a failure of another version", c: state.Config{Spec: on, Status: with(oss, func(s *state.Status) {
			s.Failed = &state.Failed{Version: "1.1.0", Edition: version.OSS, NextAttempt: noon.Add(time.Hour)}
		})}, r: desired("1.2.0"), want: StateWaiting},
		{name: "a refused downgrade", c: state.Config{Spec: on, Status: with(oss, func(s *state.Status) { s.Refused = &state.Refused{Version: "0.9.0", Reason: "no backup"} })}, r: desired("0.9.0"), want: StateNeedsAttention},
		{name: "at work", c: state.Config{Spec: on, Status: oss}, r: running, want: StateUpdating},
		{name: "cut off", c: state.Config{Spec: on, Status: oss}, r: open, want: StateNeedsAttention},
		{name: "an unreadable journal outranks all", r: running, broken: errors.New("x"), want: StateNeedsAttention},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := conditions(tc.c, tc.r, tc.agent, tc.ticks, tc.broken, noon)
			if _, got, why := sumUp(all); got != tc.want || why == "" {
				t.Errorf("got %q (%s); want %q", got, why, tc.want)
			}
		})
	}
}

// The copy of the updater that is there may be the one that can close it.
func TestSetupLeavesTheCopyWhereANewerUpdaterIsNotDone(t *testing.T) {
	i := testInstaller(t)
	i.Program = "/proc/self/exe"
	writeFile(t, i.Paths.Updater(), "the newer one")
	writeFile(t, i.Paths.Journal(), `{"schema": 99, "readable_from": 99}`)
	err := i.Setup(t.Context())
	if text, _ := os.ReadFile(i.Paths.Updater()); err == nil || !strings.Contains(err.Error(), "newer updater") || string(text) != "the newer one" {
		t.Errorf("%v; the copy holds %d bytes", err, len(text))
	}
}
