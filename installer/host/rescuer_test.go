package host

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/systemd"
)

// What a drop-in puts around the recovery's program, or in its place, is run like the program itself.
func TestALoadedRescuerIsRun(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	updater := program("updater", `[ "$*" = "--data-dir /x version --format json" ] && echo '{"schema": 7}'`)
	for name, tc := range map[string]struct {
		commands [][]string
		schema   int // 0: it cannot be counted on
	}{
		"the updater":               {[][]string{{updater, "--data-dir", "/x", "recover", "--boot"}}, 7},
		"a program around it":       {[][]string{{"/usr/bin/nice", "-n", "5", updater, "--data-dir", "/x", "recover", "--boot"}}, 7},
		"another one around it":     {[][]string{{program("around", `exec "$@"`), updater, "--data-dir", "/x", "recover"}}, 7},
		"a program that is sought":  {[][]string{{"/usr/bin/env", "true", "recover"}}, 0},
		"one that does nothing":     {[][]string{{"/bin/true", updater, "recover", "--boot"}}, 0},
		"one that fails":            {[][]string{{program("fails", "exit 1"), "recover", "--boot"}}, 0},
		"one that is gone":          {[][]string{{filepath.Join(dir, "gone"), "recover", "--boot"}}, 0},
		"a second command":          {[][]string{{"/bin/true"}, {updater, "--data-dir", "/x", "recover", "--boot"}}, 7},
		"a second one that fails":   {[][]string{{"/bin/true"}, {"/bin/false", "recover", "--boot"}}, 0},
		"no recovery among several": {[][]string{{"/bin/true"}, {updater}}, 0},
	} {
		u := systemd.Unit{Name: "teleport-update-recover.service", ExecStart: tc.commands[0][0], Command: tc.commands[0], Later: tc.commands[1:]}
		schema, err := LoadedRescuer(t.Context(), u)
		if schema != tc.schema || (err == nil) != (tc.schema != 0) {
			t.Errorf("%s: schema %d, %v; want %d", name, schema, err, tc.schema)
		}
	}
}
