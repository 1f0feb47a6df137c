package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestLimitsThatEndAService(t *testing.T) {
	for _, tc := range []struct {
		unit map[string]any
		want []string
	}{
		{map[string]any{"LimitAS": uint64(700 << 20), "RuntimeMaxUSec": uint64(3_000_000)}, []string{"LimitAS=734003200", "RuntimeMaxSec=3s"}},
		{map[string]any{"LimitAS": uint64(4 << 30), "RuntimeMaxUSec": uint64(86_400_000_000)}, nil},
		{map[string]any{"LimitAS": ^uint64(0), "RuntimeMaxUSec": ^uint64(0)}, nil},
	} {
		if got := parseStartup(variants(tc.unit)).EndsService; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: %q end the service; want %q", tc.unit, got, tc.want)
		}
	}
}

func TestCommandsThatComeFirst(t *testing.T) {
	command := func(ignored bool, words ...string) []any { return []any{words[0], words, ignored} }
	s := parseStartup(variants(map[string]any{"ExecCondition": [][]any{command(false, "/bin/a", "b")},
		"ExecStartPre": [][]any{command(true, "/bin/c"), command(false, "/bin/d")}}))
	if want := []string{"ExecCondition=/bin/a b", "ExecStartPre=/bin/d"}; !reflect.DeepEqual(s.Before, want) {
		t.Errorf("%q come before; want %q", s.Before, want)
	}
}

// A command around the program has to be executable; who may bring it, or does without it, is no reason to refuse a start.
func TestACommandAroundTheProgramHasToBeExecutable(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	closed, script := filepath.Join(dir, "closed"), filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{closed: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("#!"+gone+"/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	before := func(program string, ignored bool) [][]any { return [][]any{{program, []string{program}, ignored}} }
	privileged := [][]any{{"/bin/sh", []string{"/bin/sh"}, []string{"privileged"}}}
	for name, tc := range map[string]struct {
		unit map[string]any
		want string
	}{
		"a command":                               {map[string]any{"ExecStartPre": before(gone, false)}, "ExecStartPre=" + gone},
		"a command that skips":                    {map[string]any{"ExecCondition": before(gone, false)}, "ExecCondition=" + gone},
		"a command that may be":                   {map[string]any{"ExecStartPre": before(gone, true)}, ""},
		"a command by its name":                   {map[string]any{"ExecStartPre": before("gone", false)}, ""},
		"a command that may not be executed":      {map[string]any{"ExecStartPre": before(closed, false)}, "ExecStartPre=" + closed},
		"a condition that may not be executed":    {map[string]any{"ExecCondition": before(closed, false)}, "ExecCondition=" + closed},
		"a command afterwards":                    {map[string]any{"ExecStartPost": before(gone, false)}, "ExecStartPost=" + gone},
		"a script without its interpreter":        {map[string]any{"ExecStartPost": before(script, false)}, "ExecStartPost=" + script},
		"a command afterwards that may fail":      {map[string]any{"ExecStartPost": before(closed, true)}, ""},
		"a command afterwards that can be":        {map[string]any{"ExecStartPost": before("/bin/sh", false)}, ""},
		"a command afterwards that is made first": {map[string]any{"ExecStartPost": before(gone, false), "ExecStartPreEx": privileged}, ""},
		"an interpreter that is bound": {map[string]any{"ExecStartPre": before(script, false),
			"BindPaths": [][]any{{"/usr", gone, false, uint64(0)}}}, ""},
		"a command that a service brings": {map[string]any{"ExecStartPre": before(closed, false), "Wants": []string{"a.service"},
			"After": []string{"a.service"}}, ""},
	} {
		s := parseStartup(variants(tc.unit))
		if got := s.Obstacle(); got != tc.want {
			t.Errorf("%s: %q keeps it from starting; want %q", name, got, tc.want)
		}
	}
}

// systemd makes the folders of a unit, unless there is a file. A file in the place of a configuration folder it leaves alone.
func TestAFileInThePlaceOfAUnitsFolder(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for name, above := range map[string]string{"StateDirectory": "/var/lib", "RuntimeDirectory": "/run", "CacheDirectory": "/var/cache",
		"LogsDirectory": "/var/log", "ConfigurationDirectory": "/etc"} {
		for path, blocks := range map[string]bool{file: name != "ConfigurationDirectory", file + "/below": true, dir: false, link: false, dir + "/gone": false} {
			folder, err := filepath.Rel(above, path)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if blocks {
				want = name + "=" + folder
			}
			s := parseStartup(variants(map[string]any{name: []string{folder}}))
			if got := s.Obstacle(); got != want {
				t.Errorf("%s=%s: %q keeps it from starting; want %q", name, path, got, want)
			}
		}
	}
	mounted := parseStartup(variants(map[string]any{"LogsDirectory": []string{"../.." + file}, "Requires": []string{escapePath(dir) + ".mount"},
		"After": []string{escapePath(dir) + ".mount"}}))
	if got := mounted.Obstacle(); got != "" {
		t.Errorf("below a mount that comes first: %q keeps it from starting", got)
	}
}
