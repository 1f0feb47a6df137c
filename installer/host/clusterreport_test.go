package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/golden"
	"teleport-update/internal/version"
)

func TestWhatTheAgentReadsKeepsItsForm(t *testing.T) {
	dir := t.TempDir()
	h := &Host{Paths: state.Paths{DataDir: dir, LinkDir: "/usr/local/bin", AgentRunDir: "/run/teleport-update-agent"}, Log: slog.New(slog.DiscardHandler)}
	if err := os.Mkdir(h.Paths.Versions(), 0o755); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	c := state.EmptyConfig()
	c.Spec = state.Spec{Proxy: "proxy.example.com:443", Group: "staging", Enabled: true, ActiveVersion: "1.1.0",
		URLTemplates: []string{"https://user:secret@mirror.example.com/{{.Version}}"}}
	c.Status = state.Status{ActiveEdition: version.FIPS, PreviousVersion: "1.0.0", PreviousEdition: version.OSS,
		Failed:     &state.Failed{Version: "1.2.0", Edition: version.Enterprise},
		LastUpdate: &state.LastUpdate{Time: noon, Target: "1.2.0", TargetEdition: version.Enterprise, Result: state.RolledBack, ErrorCode: 1}}
	write := func(pinned bool) string {
		t.Helper()
		if err := h.WriteClusterConfig(c, pinned); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(h.Paths.ClusterConfig())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	text := write(true)
	golden.File(t, "testdata/update_config.yaml", text)
	if strings.Contains(text, "secret") {
		t.Error("it holds a secret")
	}
	if info, err := os.Stat(h.Paths.ClusterConfig()); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// A tick that changes nothing costs no write.
	before, err := os.Stat(h.Paths.ClusterConfig())
	if err != nil {
		t.Fatal(err)
	}
	write(true)
	if after, err := os.Stat(h.Paths.ClusterConfig()); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was written again (%v)", err)
	}
	c.Status = state.Status{}
	if text := write(false); strings.Contains(text, "pinned: true") || strings.Contains(text, "skip") || strings.Contains(text, "backup") {
		t.Errorf("after all is over:\n%s", text)
	}
	c.Spec.NoClusterReport = true
	if text := write(false); text != "" {
		t.Errorf("an agent that is not to report reads\n%s", text)
	}
	c.Spec.NoClusterReport, c.Spec.ActiveVersion = false, ""
	if text := write(false); text != "" {
		t.Errorf("before the first enable, an agent reads\n%s", text)
	}
}
