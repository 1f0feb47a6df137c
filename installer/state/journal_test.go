package state

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"teleport-update/health/settings"
	"teleport-update/internal/version"
	"testing"
	"time"
)

// What a newer updater adds does not matter to this one, as long as the writer says
// that it does not.
func TestAJournalOfANewerUpdaterIsReadIfItSaysSo(t *testing.T) {
	for content, readable := range map[string]bool{
		`{"schema": 1, "phase": "begun", "extra": {"x": 1}, "agent": {"more": true}}`: true,
		`{"schema": 99, "readable_from": 1, "phase": "begun", "extra": 1}`:            true,
		`{"schema": 99, "readable_from": 9, "phase": "begun"}`:                        false,
		`{"schema": 99, "phase": "begun"}`:                                            false,
	} {
		path := filepath.Join(t.TempDir(), "journal.json")
		writeFile(t, path, content)
		j, err := LoadJournal(path)
		bad, ok := errors.AsType[*JournalError](err)
		if readable && (err != nil || j.Phase != "begun") || !readable && (!ok || bad.Newer == nil) {
			t.Errorf("%s: %+v, %v; want it to be readable: %v", content, j, err, readable)
		}
	}
}

func TestJournalComesBackAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	j := &Journal{
		Head: Head{Schema: Schema, ReadableFrom: 1}, ID: "x", Phase: "switched", Started: noon, BootID: "b",
		From:     &Tree{Release: version.Release{Version: "1.0.0", Edition: version.OSS}},
		To:       Tree{Release: version.Release{Version: "1.1.0", Edition: version.OSS}, SHA256: "aa", Dir: "/d"},
		Unit:     UnitFile{Path: "/u", Regular: true, Content: []byte("[Unit]\n"), Mode: 0o644},
		Agent:    Agent{State: AgentRunning, MainPID: 7},
		Database: Database{Plan: BackupDatabase, Path: "/p", Dir: "/b", Taken: true},
		Commit:   Commit{Spec: &Spec{Proxy: "p", Enabled: true, Health: HealthSpec{Settings: settings.Settings{Window: Duration(time.Second)}}}},
		Reached:  "reload",
	}
	if err := j.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := LoadJournal(path)
	if err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("got %+v, %v; want %+v", got, err, j)
	}
	if none, err := LoadJournal(path + ".none"); none != nil || err != nil {
		t.Errorf("no journal: %v, %v", none, err)
	}
}

// What a disk does not give out is no broken file: who reads it must not act as if it told nothing.
func TestWhatIsNotReadThisTimeIsNotBroken(t *testing.T) {
	const fails = "/proc/self/mem" // each read at its beginning ends with EIO
	j, err := LoadJournal(fails)
	if _, broken := errors.AsType[*JournalError](err); j != nil || broken || !errors.Is(err, syscall.EIO) {
		t.Errorf("the journal: %v, %v; want EIO, and no *JournalError", j, err)
	}
	if h, err := LoadHistory(fails); len(h.Ended) > 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("the history: %v, %v; want EIO", h, err)
	}
	broken := filepath.Join(t.TempDir(), "history.json")
	if err := os.WriteFile(broken, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a damaged one": broken, "a folder": t.TempDir(), "none": broken + ".none"} {
		if h, err := LoadHistory(path); len(h.Ended) > 0 || err != nil {
			t.Errorf("%s: %v, %v; want an empty history", what, h, err)
		}
	}
}
