package transaction

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/golden"
)

func TestAnOrderHasNamesInOneSpelling(t *testing.T) { golden.Tags(t, "json", Order{}) }

// goldenJournals are a real journal of each phase, as a transaction that was cut off there
// left it.
func goldenJournals(t *testing.T) map[string]string {
	t.Helper()
	id := regexp.MustCompile(`"id": "[A-Z2-7]{26}"`)
	folder := regexp.MustCompile(`("device": |"inode": )\d+|("file_system": ")[0-9a-f]+|("mount": ")[^"]+`) // of this machine
	journals := map[string]string{}
	for _, s := range scenes() {
		m := s.make(t)
		j, err := load(m.Host.Paths.Journal())
		must(t, err)
		name := string(j.Phase) + ".json"
		if journals[name] != "" {
			continue // the first of each phase
		}
		data, err := os.ReadFile(m.Host.Paths.Journal())
		must(t, err)
		text := strings.ReplaceAll(string(data), filepath.Dir(m.Host.Paths.DataDir), "")
		journals[name] = folder.ReplaceAllString(id.ReplaceAllString(text, `"id": "THE ID"`), "${1}${2}${3}0")
	}
	return journals
}

// The phase words are the names of the files.
func TestTheJournalOfEachPhaseKeepsItsForm(t *testing.T) {
	var files []string
	for name, text := range goldenJournals(t) {
		files = append(files, name)
		golden.File(t, filepath.Join("testdata", "journal", name), text)
	}
	golden.Folder(t, filepath.Join("testdata", "journal"), files...)
	if len(files) != len(names()) {
		t.Errorf("there are journals %q; want one of each of %q", files, names())
	}
}

func TestOrdersKeepTheirForm(t *testing.T) {
	var r Request
	golden.Fill(&r)
	for name, o := range map[string]Order{"switch": {Transaction: &r}} {
		o.Writer = "/usr/bin/teleport-update"
		must(t, o.Stamp(o))
		data, err := json.MarshalIndent(o, "", "  ")
		must(t, err)
		golden.File(t, filepath.Join("testdata", "order", name+".json"), string(data)+"\n")
		again, err := ReadOrder(strings.NewReader(string(data)))
		must(t, err)
		back, err := json.MarshalIndent(again, "", "  ")
		must(t, err)
		if string(back) != string(data) {
			t.Errorf("%s: it is read as %s", name, back)
		}
	}
}

// Words that are written down, and what says them.
func TestTheWordsKeepTheirForm(t *testing.T) {
	var b strings.Builder
	list := func(of string, words ...any) {
		for _, w := range words {
			fmt.Fprintf(&b, "%s: %v\n", of, w)
		}
	}
	for _, s := range steps() {
		list("reached", s.name)
	}
	list("kind", Update, Downgrade, Enable, Pin, Rollback)
	list("verdict.against", state.AgainstVersion, state.AgainstCircumstances, state.AgainstInterruption)
	list("agent.state", state.AgentRunning, state.AgentFailing, state.AgentStopped, state.AgentUnknown)
	list("database.plan", state.KeepDatabase, state.BackupDatabase, state.RestoreDatabase)
	list("status.last_update.result", state.Succeeded, state.RolledBack, state.FailedEarly, state.Interrupt)
	list("environment", ScheduledVariable)
	golden.File(t, filepath.Join("testdata", "words.txt"), b.String())
}
