package systemd

import (
	"os"
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

// systemd does not say itself that it has not read the first drop-in of a unit, whose folder is new.
func TestFilesThatSystemdHasNotRead(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := write("a-b.service.d/50-own.conf")
	u := Unit{Name: "a-b.service", LoadState: "loaded"}
	if !HasUnread(u, []string{dir}) || HasUnread(u, []string{dir}, own) || HasUnread(u, nil) {
		t.Error("a drop-in that was not read")
	}
	u.DropIns = []string{"/lib/other/50-own.conf"} // the same folder by another name
	if HasUnread(u, []string{dir}) {
		t.Error("it was read")
	}
	for _, other := range []string{"c.service.d/x.conf", "a-b.service.d/readme", "a-b.timer.d/x.conf", "a-b.service.d/folder.conf/x"} {
		write(other)
	}
	if err := os.Symlink(os.DevNull, filepath.Join(dir, "a-b.service.d/masked.conf")); err != nil {
		t.Fatal(err)
	}
	if HasUnread(u, []string{dir}) {
		t.Error("files that are no drop-ins of its")
	}
	if write("service.d/z.conf"); HasUnread(u, []string{dir}) {
		t.Error("an old systemd does not read what is for all services")
	}
	if second := write("a-b.service.d/60-second.conf"); !HasUnread(u, []string{"/nonexistent", dir}) || HasUnread(u, []string{dir}, second) {
		t.Error("another drop-in that was not read")
	}
	u.NeedDaemonReload = true
	if !HasUnread(u, nil) {
		t.Error("systemd says so itself")
	}
	u.LoadState, u.NeedDaemonReload = "not-found", false
	if HasUnread(u, []string{dir}) {
		t.Error("a unit that is not there")
	}
}
