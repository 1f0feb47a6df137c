package installer

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/golden"
	"teleport-update/internal/version"
)

func TestStatusHasNamesInOneSpelling(t *testing.T) { golden.Tags(t, "json", Report{}) }

// Scripts read the one, people the other.
func TestStatusKeepsItsForm(t *testing.T) {
	enabled := func(change func(*state.Config)) *state.Config {
		c := state.EmptyConfig()
		c.Spec = state.Spec{Proxy: "http://127.0.0.1:1", Group: "dev", Enabled: true, ActiveVersion: "1.1.0"}
		c.Status = state.Status{ActiveEdition: version.Enterprise, PreviousVersion: "1.0.0", PreviousEdition: version.OSS,
			LastUpdate: &state.LastUpdate{Time: noon, Target: "1.1.0", TargetEdition: version.Enterprise, Result: state.Succeeded}}
		if change != nil {
			change(&c)
		}
		return &c
	}
	failed := func(c *state.Config) {
		c.Status.LastUpdate = &state.LastUpdate{Time: noon, Target: "1.2.0", Result: state.RolledBack, Error: "it died", SkippedBackup: true}
		c.Status.Failed = &state.Failed{Version: "1.2.0", Attempts: 1, NextAttempt: noon.Add(time.Hour), Error: "it died"}
	}
	journal := func(phase state.Phase) *state.Journal {
		j := &state.Journal{ID: "x", BootID: "boot", Started: noon, Phase: phase}
		if phase != "uninstalling" {
			j.From = &state.Tree{Release: version.Release{Version: "1.1.0", Edition: version.Enterprise}}
			j.To.Release = version.Release{Version: "1.2.0", Edition: version.Enterprise}
			j.Verdict.Reason = "it died"
		}
		return j
	}
	const wants12 = `{"time":"2026-03-01T12:00:00Z","proxy":"http://127.0.0.1:1","group":"dev","version":"1.2.0","edition":"enterprise","auto_update":true,"jitter_seconds":60}`
	scenes := map[string]struct {
		c       *state.Config
		answer  string
		journal *state.Journal
		newer   bool
	}{
		"never-enabled": {},
		"idle":          {c: enabled(nil), answer: strings.Replace(wants12, "1.2.0", "1.1.0", 1)},
		"behind":        {c: enabled(nil), answer: wants12},
		"disabled":      {c: enabled(func(c *state.Config) { c.Spec.Enabled = false })},
		"pinned":        {c: enabled(func(c *state.Config) { c.Spec.Pinned, c.Status.Unproven = true, true })},
		"held": {c: enabled(func(c *state.Config) {
			c.Status.Held = &state.Held{Version: "1.2.0", Edition: version.Enterprise, Since: noon}
		}), answer: wants12},
		"backing-off": {c: enabled(failed), answer: wants12},
		"refused": {c: enabled(func(c *state.Config) {
			c.Status.Refused = &state.Refused{Version: "1.2.0", Edition: version.Enterprise, Reason: "there is no backup"}
			c.Status.PackagesLeft = []state.PackageLeft{{Package: state.Package{Kind: "deb", Name: "teleport", Version: "1"}, Since: noon, Error: "it is locked"}}
		}), answer: wants12},
		"cut-off":       {c: enabled(nil), answer: wants12, journal: journal("switched")},
		"uninstalling":  {c: enabled(nil), journal: journal("uninstalling")},
		"newer-journal": {c: enabled(nil), journal: journal("switched"), newer: true},
	}
	var files []string
	for name, s := range scenes {
		i := testInstaller(t)
		i.Now = func() time.Time { return noon }
		root := filepath.Dir(i.Paths.DataDir)
		if s.c != nil {
			writeFile(t, i.Paths.Config(), "")
			must(t, s.c.Save(i.Paths.Config()))
		}
		if s.answer != "" {
			writeFile(t, i.Paths.LastAnswer(), s.answer)
		}
		if s.journal != nil {
			s.journal.Writer = "/usr/bin/teleport-update"
			if s.newer {
				s.journal.ReadableFrom = state.Schema + 1
			}
			must(t, s.journal.Save(i.Paths.Journal()))
		}
		r, err := i.Status(t.Context())
		must(t, err)
		data, err := json.MarshalIndent(r, "", "  ")
		must(t, err)
		var text strings.Builder
		r.Text(&text)
		for suffix, content := range map[string]string{".json": string(data) + "\n", ".txt": text.String()} {
			files = append(files, name+suffix)
			golden.File(t, filepath.Join("testdata", "status", name+suffix), strings.ReplaceAll(content, root, ""))
		}
	}
	golden.Folder(t, filepath.Join("testdata", "status"), files...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
