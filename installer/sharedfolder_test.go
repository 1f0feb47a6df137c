package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two hosts have one data folder if each asks find after the other one. A disk that moved from one host to another has one at a time.
func TestTwoHostsOnOneDataFolderAreNamed(t *testing.T) {
	for runs, want := range map[string]bool{
		"A":       false,
		"A A A":   false,
		"A B":     false,
		"A B B B": false,
		"A B A":   true,
		"A A B A": true,
		"A B A A": true,
		"A A - A": false, // no machine-id
		"A B A+":  false, // a day ago
	} {
		w := newWorld(t)
		dir := t.TempDir()
		for run := range strings.FieldsSeq(runs) {
			w.MachineID = filepath.Join(dir, run[:1])
			if run != "-" {
				writeFile(t, w.MachineID, strings.Repeat(run[:1], 32)+"\n")
			}
			_, _ = w.tick() // there is nothing to fetch
			w.clock = w.clock.Add(10 * time.Minute)
			if strings.HasSuffix(run, "+") {
				w.clock = w.clock.Add(25 * time.Hour)
			}
		}
		named := false
		host, err := os.Hostname()
		must(t, err)
		for _, c := range w.state().Conditions {
			named = named || strings.Contains(c.Message, host+" and "+host+" are on one data folder, "+w.Machine.Host.Paths.DataDir)
		}
		if named != want {
			t.Errorf("%s: named %v; want %v", runs, named, want)
		}
	}
}
