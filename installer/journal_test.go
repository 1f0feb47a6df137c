package installer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
)

func testInstaller(t *testing.T) *Installer {
	t.Helper()
	root := t.TempDir()
	i := New(state.Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
	}, slog.New(slog.DiscardHandler))
	i.Boot = survey.Boot{} // that of a container, if the test runs in one, is not the test's
	i.Up = nil             // a test's clock is set again and again, and no boot lies between
	return i
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
			writeFile(t, i.Machine.Host.Paths.Journal(), tc.content)
			writeFile(t, i.Machine.Host.Paths.Config(), wholeConfig)
			r, err := i.Status(context.Background(), StatusOptions{Offline: true})
			if err != nil || r.State != decision.NeedsAttention || !strings.Contains(r.Explanation, tc.want) || !strings.Contains(r.Explanation, tc.advice) {
				t.Errorf("status is %s: %s (%v); want what is wrong, and %q", r.State, r.Explanation, err, tc.advice)
			}
			err = i.Update(context.Background(), UpdateOptions{})
			if _, person := errors.AsType[*failure.NeedsPersonError](err); !person || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want a NeedsPersonError with %q", err, tc.want)
			}
			if !host.Exists(i.Machine.Host.Paths.Journal()) {
				t.Error("the journal is gone: what it knew is lost")
			}
		})
	}
}

// The copy of the updater that is there may be the one that can close it.
func TestSetupLeavesTheCopyWhereANewerUpdaterIsNotDone(t *testing.T) {
	i := testInstaller(t)
	i.Machine.Host.Program = "/proc/self/exe"
	writeFile(t, i.Machine.Host.Paths.Updater(), "the newer one")
	writeFile(t, i.Machine.Host.Paths.Journal(), `{"schema": 99, "readable_from": 99}`)
	err := i.Setup(t.Context())
	if text, _ := os.ReadFile(i.Machine.Host.Paths.Updater()); err == nil || !strings.Contains(err.Error(), "newer updater") || string(text) != "the newer one" {
		t.Errorf("%v; the copy holds %d bytes", err, len(text))
	}
}
