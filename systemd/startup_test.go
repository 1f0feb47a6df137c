package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What a start would fail for is seen; what systemd makes, what other units may bring, and what may be missing is none of that.
func TestWhatPreventsAStartByItsUnit(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	online := onlineCPU(t)
	bringsAny := map[string]any{"Requires": []string{"secrets.service"}, "After": []string{"secrets.service"}}
	bringsOther := map[string]any{"Wants": []string{"network-online.target", "late.service"}, "After": []string{"network-online.target"}}
	for name, tc := range map[string]struct {
		unit, more map[string]any
		start      string
	}{
		"nothing":                          {},
		"a group":                          {unit: map[string]any{"Group": "no-such-group"}, start: "Group=no-such-group"},
		"a CPU that is not there":          {unit: map[string]any{"CPUAffinity": mask(9001)}, start: "CPUAffinity=9001"},
		"several CPUs that are not there":  {unit: map[string]any{"CPUAffinity": mask(9001, 9007)}, start: "CPUAffinity=9001 9007"},
		"a CPU that is there, and another": {unit: map[string]any{"CPUAffinity": mask(online, 9001)}},
		"CPUs of memory":                   {unit: map[string]any{"CPUAffinity": mask(9001), "CPUAffinityFromNUMA": true}},
		"no CPU at all":                    {unit: map[string]any{"CPUAffinity": []byte{}}},
		"root's group":                     {unit: map[string]any{"Group": "root", "SupplementaryGroups": []string{"root"}}},
		"a group by number":                {unit: map[string]any{"Group": "54321"}},
		"a group that is made":             {unit: map[string]any{"Group": "no-such-group", "DynamicUser": true}},
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
		"no limit, as infinity has": {unit: map[string]any{"LimitAS": ^uint64(0)}},
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
	}
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
	command := func(ignored bool, words ...string) []any { return []any{words[0], words, ignored} }
	s := parseStartup(variants(map[string]any{"ExecCondition": [][]any{command(false, "/bin/a", "b")},
		"ExecStartPre": [][]any{command(true, "/bin/c"), command(false, "/bin/d")}}))
	if want := []string{"ExecCondition=/bin/a b", "ExecStartPre=/bin/d"}; !reflect.DeepEqual(s.Before, want) {
		t.Errorf("%q come before; want %q", s.Before, want)
	}
}

// What the settings of a unit name has to be there at each start; who may bring it, or does without it, is no reason to refuse one.
func TestWhatAStartNeedsOfFiles(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	bind := func(from, to string, ignored bool) [][]any { return [][]any{{from, to, ignored, uint64(0)}} }
	closed, script := filepath.Join(dir, "closed"), filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{closed: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("#!"+gone+"/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	before := func(program string, ignored bool) [][]any { return [][]any{{program, []string{program}, ignored}} }
	credential := func(path string) [][]any { return [][]any{{"token", path}} }
	privileged := [][]any{{"/bin/sh", []string{"/bin/sh"}, []string{"privileged"}}}
	for name, tc := range map[string]struct {
		unit map[string]any
		want string
	}{
		"a folder to write":           {map[string]any{"ReadWritePaths": []string{gone}}, "ReadWritePaths=" + gone},
		"a folder to read":            {map[string]any{"ReadOnlyPaths": []string{"/", gone}}, ""}, // the one above says the same
		"a folder only to read":       {map[string]any{"ReadOnlyPaths": []string{gone}}, "ReadOnlyPaths=" + gone},
		"a folder that is hidden":     {map[string]any{"InaccessiblePaths": []string{gone}}, "InaccessiblePaths=" + gone},
		"one below what is hidden":    {map[string]any{"InaccessiblePaths": []string{dir}, "ReadWritePaths": []string{gone}}, ""},
		"one below what is protected": {map[string]any{"ProtectSystem": "strict", "ReadWritePaths": []string{gone}}, "ReadWritePaths=" + gone},
		"one that may be missing":     {map[string]any{"ReadWritePaths": []string{"-" + gone, "-+" + gone}}, ""},
		"one that is there":           {map[string]any{"ReadWritePaths": []string{dir}}, ""},
		"one that systemd makes":      {map[string]any{"ReadWritePaths": []string{"/var/lib/no-such/audit"}, "StateDirectory": []string{"no-such"}}, ""},
		"one of another root":         {map[string]any{"ReadWritePaths": []string{"+" + gone}, "RootDirectory": "/srv"}, ""},
		"one that a command makes":    {map[string]any{"ReadWritePaths": []string{gone}, "ExecStartPreEx": privileged}, ""},
		"one that a service brings": {map[string]any{"ReadWritePaths": []string{gone}, "Wants": []string{"a.service"},
			"After": []string{"a.service"}}, ""},
		"what is bound":                {map[string]any{"BindPaths": bind(gone, gone, false)}, "BindPaths=" + gone},
		"what is bound to read":        {map[string]any{"BindReadOnlyPaths": bind(gone, "/srv", false)}, "BindReadOnlyPaths=" + gone},
		"what is bound if it is there": {map[string]any{"BindPaths": bind(gone, "/srv", true)}, ""},
		"a credential":                 {map[string]any{"LoadCredential": credential(gone)}, "LoadCredential=token:" + gone},
		"a credential of the system":   {map[string]any{"LoadCredential": credential("token")}, ""},
		"a credential with a default": {map[string]any{"LoadCredential": credential(gone),
			"SetCredential": [][]any{{"token", []byte("x")}}}, ""},
		"a network":                               {map[string]any{"NetworkNamespacePath": gone}, "NetworkNamespacePath=" + gone},
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
			"BindPaths": bind("/usr", gone, false)}, ""},
		"a command that a service brings": {map[string]any{"ExecStartPre": before(closed, false), "Wants": []string{"a.service"},
			"After": []string{"a.service"}}, ""},
	} {
		s := parseStartup(variants(tc.unit))
		if got := s.PreventsStart(t.Context()); got != tc.want {
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
			if got := s.PreventsStart(t.Context()); got != want {
				t.Errorf("%s=%s: %q keeps it from starting; want %q", name, path, got, want)
			}
		}
	}
	mounted := parseStartup(variants(map[string]any{"LogsDirectory": []string{"../.." + file}, "Requires": []string{escapePath(dir) + ".mount"},
		"After": []string{escapePath(dir) + ".mount"}}))
	if got := mounted.PreventsStart(t.Context()); got != "" {
		t.Errorf("below a mount that comes first: %q keeps it from starting", got)
	}
}

// mask is CPUAffinity= as systemd has it.
func mask(cpus ...int) []byte {
	bits := make([]byte, (slices.Max(cpus)+8)/8)
	for _, cpu := range cpus {
		bits[cpu/8] |= 1 << (cpu % 8)
	}
	return bits
}

// onlineCPU is a CPU on which this test may run.
func onlineCPU(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 8 * len(set) {
		if set.IsSet(cpu) {
			return cpu
		}
	}
	t.Fatal("this test may run on no CPU")
	return 0
}

func TestCPUsAreReadAsTheKernelWritesThem(t *testing.T) {
	for text, want := range map[string][]int{"0\n": {0}, "0-3\n": {0, 1, 2, 3}, "0-1,4,6-7\n": {0, 1, 4, 6, 7}} {
		if got, err := cpuList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0-", "0,,1"} {
		if got, err := cpuList(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
