package state

import (
	"errors"
	"path/filepath"
	"reflect"
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
