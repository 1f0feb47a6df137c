package installer

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"teleport-update/internal/version"
)

func testInstaller(t *testing.T) *Installer {
	t.Helper()
	root := t.TempDir()
	return New(Paths{
		DataDir:     filepath.Join(root, "data"),
		LinkDir:     filepath.Join(root, "bin"),
		UnitDir:     filepath.Join(root, "units"),
		AgentConfig: filepath.Join(root, "teleport.yaml"),
	}, slog.New(slog.DiscardHandler))
}

func TestJournalComesBackAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	j := &journal{
		Schema: journalSchema, ID: "x", Phase: switched, Started: noon, BootID: "b",
		From: &release{Version: "1.0.0", Edition: version.OSS}, To: release{Version: "1.1.0", Edition: version.OSS, SHA256: "aa", Dir: "/d"},
		Unit:     unitBefore{Path: "/u", Regular: true, Content: []byte("[Unit]\n"), Mode: 0o644},
		Agent:    agentBefore{State: agentRunning, MainPID: 7},
		Database: databaseRecord{Plan: backupDatabase, Path: "/p", Dir: "/b", Taken: true},
		Commit:   commit{Spec: &Spec{Proxy: "p", Enabled: true, Health: HealthSpec{Window: Duration(time.Second)}}},
		Switched: true,
	}
	if err := j.save(path); err != nil {
		t.Fatal(err)
	}
	got, err := loadJournal(path)
	if err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("got %+v, %v; want %+v", got, err, j)
	}
	if none, err := loadJournal(path + ".none"); none != nil || err != nil {
		t.Errorf("no journal: %v, %v", none, err)
	}
}

func TestAJournalThatCannotBeActedOnStopsEverything(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"cut off":         {`{"schema": 1, "phase": "swi`, "cannot be read"},
		"empty":           {``, "cannot be read"},
		"newer":           {`{"schema": 99, "phase": "teleported", "new": 1}`, "newer updater"},
		"unknown phase":   {`{"schema": 1, "phase": "teleported"}`, "unknown phase"},
		"unknown content": {`{"schema": 1, "phase": "begun", "extra": 1}`, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			i := testInstaller(t)
			writeFile(t, i.Paths.Journal(), tc.content)
			writeFile(t, i.Paths.Config(), wholeConfig)
			err := i.Update(context.Background(), UpdateOptions{})
			var person *NeedsPersonError
			if !errors.As(err, &person) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want a NeedsPersonError with %q", err, tc.want)
			}
			if !exists(i.Paths.Journal()) {
				t.Error("the journal is gone: what it knew is lost")
			}
		})
	}
}

func TestABusyLockNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "update.lock")
	unlock, err := lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock(t.Context(), path, 150*time.Millisecond)
	var busy *BusyError
	if !errors.As(err, &busy) || !strings.Contains(busy.Holder, "process ") {
		t.Fatalf("got %v; want a BusyError that names the process", err)
	}
	unlock()
	unlock, err = lock(t.Context(), path, 0)
	if err != nil {
		t.Fatalf("the lock stayed taken: %v", err)
	}
	unlock()
}

func TestStateWords(t *testing.T) {
	on := Spec{Enabled: true, ActiveVersion: "1.0.0"}
	oss := Status{ActiveEdition: version.OSS}
	desired := func(v string) Report { return Report{VersionDesired: known(v), EditionDesired: known("oss")} }
	with := func(s Status, change func(*Status)) Status { change(&s); return s }
	open := desired("1.1.0")
	open.OpenTransaction = &OpenState{To: "1.1.0", Phase: "switched"}
	running := desired("1.1.0")
	running.OpenTransaction = &OpenState{To: "1.1.0", Phase: "switched", Running: true}
	for _, tc := range []struct {
		name   string
		c      Config
		r      Report
		broken error
		want   State
	}{
		{name: "never enabled", want: StateDisabled},
		{name: "as wanted", c: Config{Spec: on, Status: oss}, r: desired("1.0.0"), want: StateIdle},
		{name: "find unheard", c: Config{Spec: on, Status: oss}, want: StateIdle},
		{name: "pinned", c: Config{Spec: Spec{Enabled: true, Pinned: true}}, want: StatePinned},
		{name: "disabled says more than pinned", c: Config{Spec: Spec{Pinned: true}}, want: StateDisabled},
		{name: "held", c: Config{Spec: on, Status: with(oss, func(s *Status) { s.Held = &Held{Version: "1.1.0", Edition: version.OSS} })}, r: desired("1.1.0"), want: StateHeld},
		{name: "a hold that find has left", c: Config{Spec: on, Status: with(oss, func(s *Status) { s.Held = &Held{Version: "1.1.0", Edition: version.OSS} })}, r: desired("1.2.0"), want: StateIdle},
		{name: "backing off", c: Config{Spec: on, Status: with(oss, func(s *Status) {
			s.Failed = &Failed{Version: "1.1.0", Edition: version.OSS, NextAttempt: noon.Add(time.Hour)}
		})}, r: desired("1.1.0"), want: StateBackingOff},
		{name: "a failure of another version", c: Config{Spec: on, Status: with(oss, func(s *Status) {
			s.Failed = &Failed{Version: "1.1.0", Edition: version.OSS, NextAttempt: noon.Add(time.Hour)}
		})}, r: desired("1.2.0"), want: StateIdle},
		{name: "a refused downgrade", c: Config{Spec: on, Status: with(oss, func(s *Status) { s.Refused = &Refused{Version: "0.9.0", Reason: "no backup"} })}, r: desired("0.9.0"), want: StateNeedsAttention},
		{name: "at work", c: Config{Spec: on, Status: oss}, r: running, want: StateUpdating},
		{name: "cut off", c: Config{Spec: on, Status: oss}, r: open, want: StateNeedsAttention},
		{name: "an unreadable journal outranks all", r: running, broken: errors.New("x"), want: StateNeedsAttention},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, why := stateWord(tc.c, tc.r, tc.broken, noon); got != tc.want || why == "" {
				t.Errorf("got %q (%s); want %q", got, why, tc.want)
			}
		})
	}
}
