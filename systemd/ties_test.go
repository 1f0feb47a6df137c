package systemd

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestConditionsAreEvaluatedAsSystemdDoes(t *testing.T) {
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	for path, content := range map[string]string{file: "x", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	for _, c := range []struct {
		name  string
		path  string
		holds bool
	}{
		{"PathExists", file, true}, {"PathExists", gone, false},
		{"PathExistsGlob", dir + "/f*", true}, {"PathExistsGlob", dir + "/z*", false},
		{"PathIsDirectory", dir, true}, {"PathIsDirectory", file, false}, {"PathIsDirectory", gone, false},
		{"PathIsSymbolicLink", link, true}, {"PathIsSymbolicLink", file, false},
		{"FileNotEmpty", file, true}, {"FileNotEmpty", empty, false}, {"FileNotEmpty", dir, false},
		{"FileIsExecutable", file, true}, {"FileIsExecutable", gone, false},
		{"DirectoryNotEmpty", dir, true}, {"DirectoryNotEmpty", gone, false},
	} {
		for _, kind := range []string{"Condition", "Assert"} {
			for _, negated := range []bool{false, true} {
				one := Condition{Type: kind + c.name, Negated: negated, Parameter: c.path}
				if unmet := (Ties{Conditions: []Condition{one}}).Unmet(); (len(unmet) == 0) != (c.holds != negated) {
					t.Errorf("%v: unmet %v", one, unmet)
				}
			}
		}
	}
	unknown := Condition{Type: "ConditionKernelCommandLine", Parameter: "quiet"}
	no, yes := Condition{Type: "ConditionPathExists", Trigger: true, Parameter: gone}, Condition{Type: "ConditionPathExists", Trigger: true, Parameter: file}
	for _, c := range []struct {
		all   []Condition
		unmet int
	}{{[]Condition{unknown}, 0}, {[]Condition{no, yes}, 0}, {[]Condition{no, no}, 2}, {[]Condition{no, unknown}, 1}} {
		if unmet := (Ties{Conditions: c.all}).Unmet(); len(unmet) != c.unmet {
			t.Errorf("%v: unmet %v; want %d", c.all, unmet, c.unmet)
		}
	}
}

// What an old systemd does not say is no refusal.
func TestTiesOfAnOldSystemd(t *testing.T) {
	if got := parseTies(map[string]any{}); !reflect.DeepEqual(got, Ties{}) {
		t.Errorf("%+v", got)
	}
	got := parseTies(map[string]any{
		"CanStart": true, "CanStop": false, "KillMode": "process", "SendSIGKILL": true,
		"RuntimeDirectory": []string{"teleport", "x/y"}, "RuntimeDirectoryPreserve": "restart",
		"RequiredBy": []string{"a.service", "multi-user.target"}, "BoundBy": []string{"a.service"}, "ConsistsOf": []string{"b.service"},
		"TriggeredBy": []string{"teleport.path", "teleport.timer"}, "UpheldBy": []string{"keeper.service"}, "After": []string{"basic.target"},
		"Conditions": [][]any{{"ConditionPathExists", false, true, "/x", int32(1)}},
	})
	want := Ties{
		RefusesStop: true, KillMode: "process", Runtime: []string{"/run/teleport", "/run/x/y"}, Dependents: []string{"a.service", "b.service"},
		Starters: []string{"keeper.service", "teleport.path"}, After: []string{"basic.target"},
		Conditions: []Condition{{Type: "ConditionPathExists", Negated: true, Parameter: "/x"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	if !got.LosesOnStop("/run/teleport/proc/sqlite.db") || got.LosesOnStop("/run/teleport2/proc/sqlite.db") || !got.SparesProcesses() {
		t.Error("what a stop takes and leaves")
	}
}
