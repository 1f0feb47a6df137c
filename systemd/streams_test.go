package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// systemd opens the files of standard input, output and errors before it executes a program.
func TestAStreamNeedsItsFileOrFolder(t *testing.T) {
	dir := t.TempDir()
	file, gone := filepath.Join(dir, "file"), filepath.Join(dir, "gone")
	log := filepath.Join(gone, "log")
	writeFile(t, file, "")
	bringsAny := map[string]any{"Wants": []string{"a.service"}, "After": []string{"a.service"}}
	for name, tc := range map[string]struct {
		unit   string // its section [Service]
		dropIn string // that of a drop-in
		more   map[string]any
		want   string
	}{
		"a log whose folder is gone":          {unit: "StandardOutput=append:" + log, want: "StandardOutput=append:" + log},
		"a log by a drop-in":                  {unit: "StandardOutput=journal", dropIn: "StandardOutput=file:" + log, want: "StandardOutput=file:" + log},
		"errors whose folder is gone":         {unit: "StandardError=truncate:" + log, want: "StandardError=truncate:" + log},
		"a log in a file's place":             {unit: "StandardOutput=append:" + file + "/log", want: "StandardOutput=append:" + file + "/log"},
		"a folder for a log":                  {unit: "StandardOutput=append:" + dir, want: "StandardOutput=append:" + dir},
		"a log that is there":                 {unit: "StandardOutput=append:" + file},
		"a log that systemd makes":            {unit: "StandardOutput=append:" + gone},
		"a log by a specifier":                {unit: "StandardOutput=append:" + gone + "/%n", want: "StandardOutput=append:" + gone + "/agent.service"},
		"a log by an unknown specifier":       {unit: "StandardOutput=append:" + gone + "/%H"},
		"input that is gone":                  {unit: "StandardInput=file:" + gone, want: "StandardInput=file:" + gone},
		"input that is there":                 {unit: "StandardInput=file:" + file},
		"input that is output, too":           {unit: "StandardInput=file:" + gone + "\nStandardOutput=file:" + gone},
		"a log of a setting that is replaced": {unit: "StandardOutput=append:" + log, dropIn: "StandardOutput=append:" + file},
		"a log in another section":            {unit: "StandardOutput=append:" + file + "\n[Install]\nStandardOutput=append:" + log},
		"a log that a service brings":         {unit: "StandardOutput=append:" + log, more: bringsAny},
		"a log in a folder of the unit": {unit: "StandardOutput=append:/var/log/no-such/log",
			more: map[string]any{"LogsDirectory": []string{"no-such"}}},
		"a log in a folder that is bound": {unit: "StandardOutput=append:" + log, more: map[string]any{"BindPaths": [][]any{{dir, gone, false, uint64(0)}}}},
		"files that systemd has not read": {unit: "StandardOutput=append:" + log, more: map[string]any{"StandardOutput": "file"}},
		"the journal":                     {unit: "StandardOutput=append:" + log, more: map[string]any{"StandardOutput": "journal"}},
	} {
		unit, added := filepath.Join(dir, "agent.service"), filepath.Join(dir, "drop-in.conf")
		writeFile(t, unit, "[Service]\n"+tc.unit+"\n")
		writeFile(t, added, "[Service]\n"+tc.dropIn+"\n")
		all := map[string]any{"Id": "agent.service", "FragmentPath": unit, "DropInPaths": []string{added}}
		for line := range strings.Lines(tc.unit + "\n" + tc.dropIn) {
			if setting, value, ok := strings.Cut(line, "="); ok {
				all[setting], _, _ = strings.Cut(value, ":")
			}
		}
		for setting, value := range tc.more {
			all[setting] = value
		}
		if got := parseStartup(variants(all)).PreventsStart(t.Context()); got != tc.want {
			t.Errorf("%s: %q keeps it from starting; want %q", name, got, tc.want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "agent.service")); err != nil {
		t.Fatal(err)
	}
	lost := map[string]any{"Id": "agent.service", "FragmentPath": filepath.Join(dir, "agent.service"), "StandardOutput": "append"}
	if got := parseStartup(variants(lost)).PreventsStart(t.Context()); got != "" {
		t.Errorf("a unit without its file: %q keeps it from starting", got)
	}
}
