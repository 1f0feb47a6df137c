package executable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The kernel says of a script whose interpreter is missing that the script is missing.
func TestAScriptNeedsItsInterpreter(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed := write("closed", "#!/bin/sh\n", 0o644)
	inner := write("inner", "#!"+gone+"\n", 0o755)
	circle := filepath.Join(dir, "circle")
	for name, tc := range map[string]struct{ content, interpreter, says string }{
		"a program":                       {"\x7fELF", "", ""},
		"an empty file":                   {"", "", ""},
		"a script":                        {"#!/bin/sh\necho\n", "/bin/sh", ""},
		"with an argument":                {"#! /bin/sh -e\n", "/bin/sh", ""},
		"without an end of its line":      {"#!/bin/sh", "/bin/sh", ""},
		"by a relative path":              {"#!bin/sh\n", "", ""},
		"without an interpreter":          {"#!\n", "", ""},
		"of an interpreter that is gone":  {"#!" + gone + " -x\n", gone, gone + " is missing"},
		"of lines that end in CR and LF":  {"#!/bin/sh\r\n", "/bin/sh\r", "\"/bin/sh\\r\""},
		"of one that may not be executed": {"#!" + closed + "\n", closed, "mode -rw-r--r--"},
		"of a folder":                     {"#!" + dir + "\n", dir, "is not a file"},
		"of a script of one that is gone": {"#!" + inner + "\n", inner, gone + " is missing"},
		"of a circle, which has no end":   {"#!" + circle + "\n", circle, ""},
		"of a name that is very long":     {"#!/" + strings.Repeat("x", 200) + "\n", "/" + strings.Repeat("x", 200), "is missing"},
	} {
		path := write("circle", tc.content, 0o755)
		if got := Interpreter(path); got != tc.interpreter {
			t.Errorf("a script %s: its interpreter is %q, want %q", name, got, tc.interpreter)
		}
		why, err := Why(path)
		if err != nil || (why == nil) != (tc.says == "") || why != nil && !strings.Contains(why.Error(), tc.says) {
			t.Errorf("a script %s: %v, %v; want %q", name, why, err, tc.says)
		}
	}
}
