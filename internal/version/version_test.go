package version

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"15.1.1", "15.1.1"},
		{"v15.1.1", "15.1.1"},
		{"16.0.0-rc.1+build5", "16.0.0-rc.1+build5"},
		{"", ""},
		{"v", ""},
		{"vv1.2.3", ""},
		{"15.1", ""},
		{"15", ""},
		{"15-rc.1.2", ""},
		{"15.01.1", ""},
		{"../15.1.1", ""},
		{"15.1.1/../..", ""},
		{"15.1.1_enterprise", ""},
		{"15.1.1\n", ""},
		{" 15.1.1", ""},
		{"1.2.3-" + strings.Repeat("a", MaxLength), ""},
	} {
		got, err := Parse(tc.in)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("Parse(%q) = %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"15.1.1", "15.1.1", 0},
		{"15.1.1+a", "15.1.1+b", 0},
		{"15.9.0", "15.10.0", -1},
		{"16.0.0-rc.1", "16.0.0", -1},
		{"16.0.0", "15.99.99", 1},
	} {
		if got := Compare(tc.a, tc.b); got != tc.want {
			t.Errorf("Compare(%q, %q) = %d; want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
