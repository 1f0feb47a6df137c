package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a person makes of a resource in an editor is applied, or the text stays for another try.
func TestAResourceIsEdited(t *testing.T) {
	s := newStation(t, map[string]int{"dev": 1})
	program := binary(t) // before TMPDIR names a folder of this test
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("VISUAL", "")
	editor := filepath.Join(s.dir, "editor")
	for _, step := range []struct{ name, command, script, says, holds string }{
		{"a new one", "edit autoupdate_config", `sed -i 's/^spec:.*/spec: {agents: {mode: suspended}}/; /^  /{/name/!d}' "$1"`, "autoupdate_config created", "mode: suspended"},
		{"a change", "edit autoupdate_config --reason later", `sed -i s/suspended/enabled/ "$1"`, "autoupdate_config changed", "mode: enabled"},
		{"no change", "edit autoupdate_config", `:`, "autoupdate_config unchanged", "mode: enabled"},
		{"a dry run", "edit autoupdate_config --dry-run", `sed -i s/enabled/disabled/ "$1"`, "would be changed (a dry run)", "mode: enabled"},
		{"an error in the text", "edit autoupdate_config", `sed -i s/enabled/often/ "$1"`, "often", "mode: enabled"},
		{"the editor fails", "edit autoupdate_config", `sed -i s/enabled/disabled/ "$1"; exit 3`, "exit status 3; nothing was written", "mode: enabled"},
		{"somebody else was faster", "edit autoupdate_config", program + ` mode disabled; sed -i s/enabled/suspended/ "$1"`, `change what "teleport-find get" prints now`,
			"mode: disabled"},
		{"no new one after all", "edit autoupdate_version", `:`, "the text was not changed; nothing was written", ""},
		{"no webhook of the name", "edit autoupdate_notify/pager", `:`, "there is no autoupdate_notify pager in the store", ""},
		{"what only the server writes", "edit autoupdate_agent_rollout", `:`, "edit takes autoupdate_config|", ""},
	} {
		writeScript(t, editor, step.script)
		t.Setenv("EDITOR", editor)
		out := s.run(step.command)
		if !strings.Contains(out, step.says) {
			t.Errorf("%s: it says\n%s\nwant %s", step.name, out, step.says)
		}
		if step.holds != "" && !strings.Contains(s.run("get autoupdate_config"), step.holds) {
			t.Errorf("%s: the store does not hold %s", step.name, step.holds)
		}
		// Lost work is worse than a file that is left.
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), "teleport-find-edit-*", "*"))
		kept := regexp.MustCompile(`the text is in (\S+)`).FindStringSubmatch(out)
		if len(left) > 1 || (len(left) == 1) != (kept != nil) || kept != nil && kept[1] != left[0] {
			t.Errorf("%s: these files are left: %q; it says\n%s", step.name, left, out)
		}
		for _, file := range left {
			os.RemoveAll(filepath.Dir(file))
		}
	}
}

func writeScript(t *testing.T, file, script string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}
