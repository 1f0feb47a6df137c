package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
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

func TestParseJitter(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want time.Duration // -1: refused
	}{
		{"0", 0}, {"10", 10 * time.Second}, {"10s", 10 * time.Second}, {"1m30s", 90 * time.Second}, {"24h", 24 * time.Hour},
		{"", -1}, {"x", -1}, {"-1", -1}, {"-1s", -1}, {"1.5s", -1}, {"86401", -1}, {"2147483647", -1}, {"9999999999999", -1},
	} {
		got, err := parseJitter(tc.in)
		if (err == nil) != (tc.want >= 0) || err == nil && got != tc.want {
			t.Errorf("parseJitter(%q) = %v, %v; want %v", tc.in, got, err, tc.want)
		}
	}
}
