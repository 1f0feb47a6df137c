package systemd

import (
	"path/filepath"
	"reflect"
	"testing"
)

// What a start would fail for is seen; what systemd makes, what other units may bring, and what may be missing is none of that.
func TestWhatPreventsAStartByItsUnit(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	bringsAny := map[string]any{"Requires": []string{"secrets.service"}, "After": []string{"secrets.service"}}
	bringsOther := map[string]any{"Wants": []string{"network-online.target", "late.service"}, "After": []string{"network-online.target"}}
	for name, tc := range map[string]struct {
		unit, more  map[string]any
		start, ends string
	}{
		"nothing":              {},
		"a group":              {unit: map[string]any{"Group": "no-such-group"}, start: "Group=no-such-group"},
		"root's group":         {unit: map[string]any{"Group": "root", "SupplementaryGroups": []string{"root"}}},
		"a group by number":    {unit: map[string]any{"Group": "54321"}},
		"a group that is made": {unit: map[string]any{"Group": "no-such-group", "DynamicUser": true}},
		"another group": {unit: map[string]any{"SupplementaryGroups": []string{"root", "no-such-group"}, "DynamicUser": true},
			start: "SupplementaryGroups=no-such-group"},
		"a folder":                     {unit: map[string]any{"WorkingDirectory": gone}, start: "WorkingDirectory=" + gone},
		"a folder that is there":       {unit: map[string]any{"WorkingDirectory": dir}},
		"a home":                       {unit: map[string]any{"WorkingDirectory": "~"}},
		"a folder that may be missing": {unit: map[string]any{"WorkingDirectory": "!" + gone}},
		"a folder that is made":        {unit: map[string]any{"WorkingDirectory": "/var/lib/no-such", "StateDirectory": []string{"no-such"}}},
		"a folder below":               {unit: map[string]any{"WorkingDirectory": "/run/no-such/a", "RuntimeDirectory": []string{"no-such"}}},
		"a folder that is bound":       {unit: map[string]any{"WorkingDirectory": gone, "BindPaths": [][]any{{dir, gone, false, uint64(0)}}}},
		"another is bound": {unit: map[string]any{"WorkingDirectory": gone, "BindPaths": [][]any{{dir, gone + "2", false, uint64(0)}}},
			start: "WorkingDirectory=" + gone},
		"a folder of a mount": {unit: map[string]any{"WorkingDirectory": gone},
			more: map[string]any{"Requires": []string{escapePath(dir) + ".mount"}, "After": []string{escapePath(dir) + ".mount"}}},
		"a folder of no mount": {unit: map[string]any{"WorkingDirectory": gone},
			more: map[string]any{"Requires": []string{"-.mount", "srv.mount"}, "After": []string{"-.mount", "srv.mount"}}, start: "WorkingDirectory=" + gone},
		"a folder that is brought":  {unit: map[string]any{"WorkingDirectory": gone}, more: bringsAny},
		"a folder that is not":      {unit: map[string]any{"WorkingDirectory": gone}, more: bringsOther, start: "WorkingDirectory=" + gone},
		"variables":                 {unit: map[string]any{"EnvironmentFiles": [][]any{{gone, false}}}, start: "EnvironmentFile=" + gone},
		"variables, or none":        {unit: map[string]any{"EnvironmentFiles": [][]any{{gone, true}}}},
		"variables that are made":   {unit: map[string]any{"EnvironmentFiles": [][]any{{gone, false}}}, more: bringsAny},
		"memory":                    {unit: map[string]any{"LimitAS": uint64(1 << 20)}, start: "LimitAS=1048576"},
		"a short time":              {unit: map[string]any{"TimeoutStartUSec": uint64(1000)}, ends: "TimeoutStartSec=1ms"},
		"another short time":        {unit: map[string]any{"RuntimeMaxUSec": uint64(1000)}, ends: "RuntimeMaxSec=1ms"},
		"a time and no group":       {unit: map[string]any{"RuntimeMaxUSec": uint64(1000), "Group": "no-such-group"}, start: "Group=no-such-group"},
		"no limit, as infinity has": {unit: map[string]any{"RuntimeMaxUSec": ^uint64(0), "LimitAS": ^uint64(0)}},
	} {
		all := map[string]any{}
		for _, of := range []map[string]any{tc.unit, tc.more} {
			for key, value := range of {
				all[key] = value
			}
		}
		s := parseStartup(variants(all))
		if got := s.PreventsStart(t.Context()); got != tc.start {
			t.Errorf("%s: %q keeps it from starting; want %q", name, got, tc.start)
		}
		want := tc.ends
		if want == "" {
			want = tc.start
		}
		if got := s.PreventsEnd(t.Context()); got != want {
			t.Errorf("%s: %q keeps it from its end; want %q", name, got, want)
		}
	}
	command := func(ignored bool, words ...string) []any { return []any{words[0], words, ignored} }
	s := parseStartup(variants(map[string]any{"ExecCondition": [][]any{command(false, "/bin/a", "b")},
		"ExecStartPre": [][]any{command(true, "/bin/c"), command(false, "/bin/d")}}))
	if want := []string{"ExecCondition=/bin/a b", "ExecStartPre=/bin/d"}; !reflect.DeepEqual(s.Before, want) {
		t.Errorf("%q come before; want %q", s.Before, want)
	}
}
