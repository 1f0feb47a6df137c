package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/internal/console"
	"teleport-update/internal/console/consoletest"
)

func TestAPersonSeesSteps(t *testing.T) {
	for _, tc := range []struct {
		name, term, noColor string
		width               uint16
		debug               bool
		want                string
	}{
		{name: "a terminal", term: "xterm", width: 80, want: "\x1b[36m›\x1b[0m 04:05:06 watching the agent (version 1.1.0)\n" +
			"\r  30s left\x1b[K\r\x1b[K\x1b[33m!\x1b[0m 04:05:06 the mirror fails (attempt 2, retried): 404\n" +
			"\x1b[31m✗\x1b[0m 04:05:06 it failed\n\x1b[32m✓\x1b[0m All is well.\n"},
		{name: "without colour", term: "xterm", noColor: "1", width: 80, want: "› 04:05:06 watching the agent (version 1.1.0)\n" +
			"\r  30s left\x1b[K\r\x1b[K! 04:05:06 the mirror fails (attempt 2, retried): 404\n✗ 04:05:06 it failed\n✓ All is well.\n"},
		{name: "narrow", term: "xterm", noColor: "1", width: 34, want: "› 04:05:06 watching the agent\n           (version 1.1.0)\n" +
			"\r  30s left\x1b[K\r\x1b[K! 04:05:06 the mirror fails\n           (attempt 2, retried):\n           404\n✗ 04:05:06 it failed\n✓ All is well.\n"},
		{name: "dumb", term: "dumb", width: 80, want: "- 04:05:06 watching the agent (version 1.1.0)\n" +
			"! 04:05:06 the mirror fails (attempt 2, retried): 404\nx 04:05:06 it failed\n+ All is well.\n"},
		{name: "with --debug", term: "dumb", width: 80, debug: true, want: "- 04:05:06 watching the agent (version 1.1.0, unit teleport.service)\n- 04:05:06 noise\n" +
			"! 04:05:06 the mirror fails (attempt 2, retried): 404\nx 04:05:06 it failed\n+ All is well.\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TERM", tc.term)
			t.Setenv("NO_COLOR", tc.noColor)
			slave, shown := consoletest.Terminal(t, tc.width)
			term := terminalOf(console.To(slave), tc.debug)
			term.now = func() time.Time { return time.Date(2026, 1, 2, 4, 5, 6, 0, time.UTC) }
			log, err := newLogger(console.To(io.Discard), term, "", tc.debug)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("watching the agent", "version", "1.1.0", "unit", "teleport.service")
			log.Debug("noise")
			if !term.plain {
				term.Draw("  30s left")
			}
			log.Warn("the mirror fails", "attempt", 2, "retried", true, "given_up", false, "error", errors.New("404"))
			log.Log(t.Context(), slog.LevelError, "it failed")
			term.say(true, "All is well.")
			if got := shown(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestACommandThatSomebodyCopiesStaysOnOneLine(t *testing.T) {
	got := wrap("it is held: `teleport-update update --now` releases it", 20)
	if want := []string{"it is held:", "`teleport-update update --now`", "releases it"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

// The whole program: a person sees steps and what is true in the end, and key=value
// where that is asked for.
func TestACommandOnATerminalEndsWithWhatIsTrue(t *testing.T) {
	t.Setenv("TERM", "dumb")
	for format, want := range map[string]struct{ has, hasNot string }{
		"":     {"- ", "version=1.1.0"},
		"text": {"version=1.1.0", "Teleport 1.1.0 is installed."},
	} {
		dir := t.TempDir()
		config := filepath.Join(dir, "data", "versions", "updates.yaml")
		if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte("version: v1\nkind: agent_versions\nspec: {proxy: \"127.0.0.1:1\", enabled: true, active_version: 1.1.0}\nstatus: {active_edition: oss}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		slave, shown := consoletest.Terminal(t, 200)
		code := run(t.Context(), []string{appName, "--data-dir", dir + "/data", "--link-dir", dir + "/bin", "--unit-dir", dir + "/units", "--log-format", format, "disable"}, io.Discard, slave)
		got := shown()
		if code != 0 || !strings.Contains(got, want.has) || strings.Contains(got, want.hasNot) {
			t.Errorf("--log-format %q ends with %d and shows\n%s", format, code, got)
		}
		if format == "" && !strings.Contains(got, "! Teleport 1.1.0 is installed.") { // and not whole
			t.Errorf("it ends with\n%s", got)
		}
	}
}
