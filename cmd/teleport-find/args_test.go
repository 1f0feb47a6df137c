package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestHelpAndVersionInEverySpelling(t *testing.T) {
	says := func(line string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"teleport-find"}, strings.Fields(line)...), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %s", line, code, stderr.String())
		}
		return stdout.String()
	}
	for one, other := range map[string]string{"--help": "help", "serve --help": "help serve", "version": "--version"} {
		if a, b := says(one), says(other); a == "" || a != b {
			t.Errorf("%s prints\n%s\nand %s\n%s", one, a, other, b)
		}
	}
}
