package main

import (
	"strings"
	"testing"
)

func TestAnExceptionMayOnlyShrink(t *testing.T) {
	for name, tc := range map[string]struct {
		found, allowed map[string]int
		want           string // part of the error
	}{
		"no function is above":          {},
		"one is":                        {found: map[string]int{"a.go f": 26}, want: "the ceiling is 25"},
		"one is, as written":            {found: map[string]int{"a.go f": 30}, allowed: map[string]int{"a.go f": 30}},
		"one grew":                      {found: map[string]int{"a.go f": 31}, allowed: map[string]int{"a.go f": 30}, want: "may only shrink"},
		"one shrank":                    {found: map[string]int{"a.go f": 29}, allowed: map[string]int{"a.go f": 30}, want: "in place of 30"},
		"an exception is not needed":    {allowed: map[string]int{"a.go f": 30}, want: "take its line out"},
		"it moved to another file":      {found: map[string]int{"b.go f": 30}, allowed: map[string]int{"a.go f": 30}, want: "the ceiling is 25"},
		"another function has its name": {found: map[string]int{"a.go (*T).f": 30}, allowed: map[string]int{"a.go f": 30}, want: "name its steps"},
	} {
		err := compare(tc.found, tc.allowed)
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

func TestTheListOfExceptionsCanBeRead(t *testing.T) {
	if _, err := parse(exceptions); err != nil {
		t.Error(err)
	}
	got, err := parse("# why\n\n30 systemd/view.go (*View).add\n")
	if err != nil || len(got) != 1 || got["systemd/view.go (*View).add"] != 30 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"30", "many a.go f"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
