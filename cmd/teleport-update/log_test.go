package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/console"

	"golang.org/x/sys/unix"
)

func TestALogLineIsOneLineWhateverItCarries(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogger(console.To(&out), nil, "text", false)
	if err != nil {
		t.Fatal(err)
	}
	log.With("unit", "teleport.service").Error("find said\nerror: all is well", "body", "a\r\nb \x1b[2J", "empty", "", "error", errors.New("x y"))
	want := `error: find said; error: all is well unit=teleport.service body="a ; b  [2J" empty="" error="x y"` + "\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestLevels(t *testing.T) {
	for _, debug := range []bool{false, true} {
		var out bytes.Buffer
		log, err := newLogger(console.To(&out), nil, "text", debug)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		want := "i\nwarning: w\n"
		if debug {
			want = "debug: d\n" + want
		}
		if out.String() != want {
			t.Errorf("debug %v: got %q; want %q", debug, out.String(), want)
		}
	}
}

func TestJSONLogsAreOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogger(console.To(&out), nil, "json", false)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("hello", "version", "1.0.0")
	var record map[string]any
	if err := json.Unmarshal(out.Bytes(), &record); err != nil || record["version"] != "1.0.0" || record["msg"] != "hello" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if _, err := newLogger(console.To(&out), nil, "xml", false); err == nil {
		t.Error("an unknown format is taken")
	}
}

func TestTheJournalGetsPriorities(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	log, err := newLogger(console.To(f), nil, "text", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		log.Log(t.Context(), level, "x")
	}
	data, _ := os.ReadFile(f.Name())
	if want := "<7>x\n<6>x\n<4>x\n<3>x\n"; string(data) != want {
		t.Errorf("got %q; want %q", data, want)
	}
}

func TestExitCodes(t *testing.T) {
	root := t.TempDir()
	dirs := []string{"teleport-update", "--data-dir", root + "/data", "--link-dir", root + "/bin", "--unit-dir", root + "/units", "--agent-config", root + "/teleport.yaml"}
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{name: "nothing to do is success", args: []string{"update"}, stderr: "updates are disabled"},
		{name: "status of a host that was never enabled", args: []string{"status"}, stdout: `"state": "disabled"`},
		{name: "a failure", args: []string{"enable"}, code: 1, stderr: "no proxy address is known"},
		{name: "a refusal", args: []string{"rollback"}, code: 1, stderr: "no active version"},
		{name: "an unknown command", args: []string{"upgrade"}, code: 2, stderr: `there is no command "upgrade"`},
		{name: "a command with a slip", args: []string{"enabel"}, code: 2, stderr: `did you mean "enable"?`},
		{name: "a flag with a slip", args: []string{"update", "--noww"}, code: 2, stderr: `did you mean "--now"?`},
		{name: "an unknown flag", args: []string{"update", "--noww"}, code: 2, stderr: "--noww"},
		{name: "a word too many", args: []string{"disable", "now"}, code: 2, stderr: "takes no argument"},
		{name: "a command's help, as a word", args: []string{"enable", "help"}, stdout: "teleport-update enable - install"},
		{name: "a version that is none", args: []string{"pin", "latest"}, code: 2, stderr: "latest"},
		{name: "a format that is none", args: []string{"status", "--format", "yaml"}, code: 2, stderr: "is none of json, text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(append([]string{}, dirs...), tc.args...), &stdout, &stderr)
			if code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("exit code %d, want %d\nstdout %q, want %q\nstderr %q, want %q", code, tc.code, stdout.String(), tc.stdout, stderr.String(), tc.stderr)
			}
			if tc.code == 2 && stdout.Len() > 0 {
				t.Errorf("stdout carries %q beside an error", stdout.String())
			}
		})
	}
}

func TestAJournalOfANewerUpdaterNeedsAPerson(t *testing.T) {
	root := t.TempDir()
	versions := filepath.Join(root, "data", "versions")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(versions, "journal.json")
	if err := os.WriteFile(journal, []byte(`{"schema": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"teleport-update", "--data-dir", filepath.Join(root, "data"), "update"}, &stdout, &stderr)
	if code != exitNeedsPerson || !strings.Contains(stderr.String(), "newer updater") {
		t.Errorf("exit code %d, want %d; stderr %q", code, exitNeedsPerson, stderr.String())
	}
	if _, err := os.Stat(journal); err != nil {
		t.Errorf("the journal: %v", err)
	}
}
