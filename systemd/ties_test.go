package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/procfs"
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
	mount := filepath.Join(dir, "mount")
	if err := os.Symlink("/proc", mount); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	for _, name := range []string{"hidden/.keep", "copies/x~", "copies/y.rpmsave", "some/.keep", "some/z"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	readOnly := filepath.Join(dir, "readonly")
	if err := os.Mkdir(readOnly, 0o755); err != nil {
		t.Fatal(err)
	}
	mounted := unix.Mount("tmpfs", readOnly, "tmpfs", unix.MS_RDONLY, "size=64k") == nil
	t.Cleanup(func() { _ = unix.Unmount(readOnly, unix.MNT_DETACH) })
	for _, c := range []struct {
		name  string
		path  string
		holds bool
	}{
		{"PathIsReadWrite", dir, true}, {"PathIsReadWrite", gone, false}, {"PathIsReadWrite", readOnly, !mounted},
		{"PathExists", file, true}, {"PathExists", gone, false},
		{"PathExistsGlob", dir + "/f*", true}, {"PathExistsGlob", dir + "/z*", false},
		{"PathIsDirectory", dir, true}, {"PathIsDirectory", file, false}, {"PathIsDirectory", gone, false},
		{"PathIsSymbolicLink", link, true}, {"PathIsSymbolicLink", file, false},
		{"PathIsMountPoint", "/proc", true}, {"PathIsMountPoint", "/proc/../proc/", true}, {"PathIsMountPoint", "/proc/self", false},
		{"PathIsMountPoint", gone, false}, {"PathIsMountPoint", mount, true},
		{"FileNotEmpty", file, true}, {"FileNotEmpty", empty, false}, {"FileNotEmpty", dir, false},
		{"FileIsExecutable", file, true}, {"FileIsExecutable", gone, false},
		{"PathExistsGlob", dir + "/[!z]ile", true}, {"PathExistsGlob", dir + "/[!f]ile", false}, {"PathExistsGlob", dir + "/hidden/*", false},
		{"PathExistsGlob", dir + "/hidden/.k*", true}, {"PathExistsGlob", dir + "//some/*", true},
		{"DirectoryNotEmpty", dir + "/hidden", false}, {"DirectoryNotEmpty", dir + "/copies", false}, {"DirectoryNotEmpty", dir + "/some", true},
		{"DirectoryNotEmpty", dir, true}, {"DirectoryNotEmpty", gone, false},
	} {
		judge(t, Condition{Type: "Condition" + c.name, Parameter: c.path}, c.holds)
		for _, kind := range []string{"Condition", "Assert"} {
			for _, negated := range []bool{false, true} {
				one := Condition{Type: kind + c.name, Negated: negated, Parameter: c.path}
				if unmet := (Ties{Conditions: []Condition{one}}).Unmet(t.Context()); (len(unmet) == 0) != (c.holds != negated) {
					t.Errorf("%v: unmet %v", one, unmet)
				}
			}
		}
	}
	braces := Condition{Type: "ConditionPathExistsGlob", Parameter: dir + "/{z,y}"}
	if unmet := (Ties{Conditions: []Condition{braces}}).Unmet(t.Context()); len(unmet) > 0 {
		t.Errorf("what this program does not evaluate is unmet: %v", unmet)
	}
	unknown := Condition{Type: "ConditionCapability", Parameter: "CAP_SYS_ADMIN"}
	no, yes := Condition{Type: "ConditionPathExists", Trigger: true, Parameter: gone}, Condition{Type: "ConditionPathExists", Trigger: true, Parameter: file}
	// systemd judges the two kinds apart: a trigger of one kind satisfies none of the other.
	assertNo, assertYes := no, yes
	assertNo.Type, assertYes.Type = "AssertPathExists", "AssertPathExists"
	for _, c := range []struct {
		all   []Condition
		unmet int
	}{{[]Condition{unknown}, 0}, {[]Condition{no, yes}, 0}, {[]Condition{no, no}, 2}, {[]Condition{no, unknown}, 1},
		{[]Condition{no, assertYes}, 1}, {[]Condition{yes, assertNo}, 1}, {[]Condition{no, assertNo}, 2}, {[]Condition{no, assertNo, yes, assertYes}, 0}} {
		if unmet := (Ties{Conditions: c.all}).Unmet(t.Context()); len(unmet) != c.unmet {
			t.Errorf("%v: unmet %v; want %d", c.all, unmet, c.unmet)
		}
	}
}

// judge has systemd itself evaluate a condition, if its program is there.
func judge(t *testing.T, c Condition, holds bool) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	if err := exec.CommandContext(t.Context(), program, "condition", c.String()).Run(); (err == nil) != holds {
		t.Errorf("%v: systemd says %v; want %t", c, err, holds)
	}
}

// What an old systemd does not say is no refusal.
func TestTiesOfAnOldSystemd(t *testing.T) {
	if got := parseTies(variants(map[string]any{})); !reflect.DeepEqual(got, Ties{}) {
		t.Errorf("%+v", got)
	}
	got := parseTies(variants(map[string]any{
		"CanStart": true, "CanStop": false, "StopWhenUnneeded": true, "KillMode": "process", "SendSIGKILL": true,
		"RuntimeDirectory": []string{"teleport", "x/y"}, "RuntimeDirectoryPreserve": "restart",
		"RequiredBy": []string{"a.service", "some.target"}, "BoundBy": []string{"a.service"}, "ConsistsOf": []string{"b.service"}, "WantedBy": []string{"multi-user.target"},
		"RequisiteOf": []string{"c.timer"}, "PropagatesStopTo": []string{"d.socket", "b.service"},
		"TriggeredBy": []string{"teleport.path", "teleport.timer"}, "UpheldBy": []string{"keeper.service"}, "After": []string{"basic.target"},
		"Requires": []string{"a.service"}, "BindsTo": []string{"b.mount"}, "Requisite": []string{"c.service"},
		"Conditions": [][]any{{"ConditionPathExists", false, true, "/x", int32(1)}}, "ExecStopPost": [][]any{{"/bin/rm", []string{"rm"}, false}},
	}))
	want := Ties{
		RefusesStop: true, StopsUnneeded: true, Commands: true, KillMode: "process", Runtime: []string{"/run/teleport", "/run/x/y"}, Dependents: []string{"a.service", "some.target", "c.timer", "b.service", "d.socket"},
		Needs:    []Need{{"Requires", "a.service"}, {"BindsTo", "b.mount"}, {"Requisite", "c.service"}},
		WantedBy: []string{"multi-user.target", "a.service", "some.target", "a.service", "keeper.service", "teleport.path", "teleport.timer"},
		Starters: []string{"keeper.service", "teleport.path"}, After: []string{"basic.target"},
		Conditions: []Condition{{Type: "ConditionPathExists", Negated: true, Parameter: "/x"}},
	}
	got.View, got.Startup, got.Rights = View{}, Startup{}, Rights{} // have tests of their own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	for name, want := range map[string]bool{"ExecStartPre": true, "ExecStop": true, "ExecStart": false, "ExecReload": false} {
		if got := parseTies(variants(map[string]any{name: [][]any{{"/bin/true"}}})); got.Commands != want {
			t.Errorf("%s: %t", name, got.Commands)
		}
	}
	for settings, want := range map[[2]string]string{
		{"none", "none"}: "", {"reboot", "none"}: "SuccessAction=reboot", {"exit-force", ""}: "SuccessAction=exit-force",
		{"", "reboot-immediate"}: "", {"none", "poweroff-force"}: "FailureAction=poweroff-force", {"none", "exit"}: "FailureAction=exit",
	} {
		if got := parseTies(variants(map[string]any{"SuccessAction": settings[0], "FailureAction": settings[1]})); got.EndsHost != want {
			t.Errorf("%q: %q ends the host, want %q", settings, got.EndsHost, want)
		}
	}
	for name, tc := range map[string]struct {
		unit map[string]any
		want string
	}{
		"a start limit":             {map[string]any{"StartLimitAction": "poweroff"}, "StartLimitAction=poweroff"},
		"a start limit that boots":  {map[string]any{"StartLimitAction": "reboot-force"}, ""},
		"a start limit, softly":     {map[string]any{"StartLimitAction": "soft-reboot"}, ""},
		"a job that takes long":     {map[string]any{"JobTimeoutAction": "halt", "JobTimeoutUSec": uint64(1e9)}, "JobTimeoutAction=halt"},
		"a job that runs long":      {map[string]any{"JobTimeoutAction": "exit-force", "JobRunningTimeoutUSec": uint64(1e9)}, "JobTimeoutAction=exit-force"},
		"a job without a limit":     {map[string]any{"JobTimeoutAction": "halt", "JobTimeoutUSec": ^uint64(0), "JobRunningTimeoutUSec": ^uint64(0)}, ""},
		"a target after a stop":     {map[string]any{"OnSuccess": []string{"a.service", "poweroff.target"}}, "OnSuccess=poweroff.target"},
		"a boot after a stop":       {map[string]any{"OnSuccess": []string{"soft-reboot.target"}}, "OnSuccess=soft-reboot.target"},
		"a service after a stop":    {map[string]any{"OnSuccess": []string{"systemd-kexec.service"}}, "OnSuccess=systemd-kexec.service"},
		"a target after a failure":  {map[string]any{"OnFailure": []string{"halt.target"}}, "OnFailure=halt.target"},
		"a service after a failure": {map[string]any{"OnFailure": []string{"systemd-exit.service"}}, "OnFailure=systemd-exit.service"},
		"a boot after a failure":    {map[string]any{"OnFailure": []string{"reboot.target", "systemd-reboot.service"}}, ""},
		"others after both": {map[string]any{"OnSuccess": []string{"mail.service", "multi-user.target", "halt.service", "systemd-halt.timer"},
			"OnFailure": []string{"alarm@teleport.service"}}, ""},
	} {
		if got := parseTies(variants(tc.unit)); got.EndsHost != tc.want {
			t.Errorf("%s: %q ends the host, want %q", name, got.EndsHost, tc.want)
		}
	}
	for settings, says := range map[*Ties]string{{KillMode: "mixed"}: "", {KillMode: "none"}: "KillMode=none", {KillMode: "control-group", Lenient: true}: "SendSIGKILL=no"} {
		if settings.Sparing() != says || settings.SparesProcesses() != (says != "") {
			t.Errorf("%+v: %q; want %q", settings, settings.Sparing(), says)
		}
	}
	if !got.LosesOnStop("/run/teleport/proc/sqlite.db") || got.LosesOnStop("/run/teleport2/proc/sqlite.db") || !got.SparesProcesses() {
		t.Error("what a stop takes and leaves")
	}
}

// A folder in /run has other names by links.
func TestAFolderThatAStopRemovesIsKnownByItsLinks(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"run/teleport/proc", "var", "srv"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"var/run": "run", "srv/agent": "run/teleport"} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	ties := Ties{Runtime: []string{filepath.Join(root, "run/teleport")}}
	for path, lost := range map[string]bool{"run/teleport/proc/sqlite.db": true, "var/run/teleport/proc/sqlite.db": true, "srv/agent/proc/sqlite.db": true, "srv/sqlite.db": false} {
		if got := ties.LosesOnStop(filepath.Join(root, path)); got != lost {
			t.Errorf("%s: %t", path, got)
		}
	}
}

// Conditions that look at no file are asked about with systemd's own program, each kind both ways.
func TestConditionsOnTheHostAreAskedAbout(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{"CapBnd", "Cpus_allowed"} {
		if err := procfs.Host().SameAs(1, line); err != nil {
			t.Skipf("this process has not what process 1 has: %v", err)
		}
	}
	for _, c := range []struct {
		name, parameter string
		holds           bool
	}{
		{"Host", "no-such-host", false}, {"Host", "*", true}, {"Memory", ">=1", true}, {"Memory", "<1", false},
		{"KernelVersion", ">=3", true}, {"KernelVersion", "<3", false}, {"KernelCommandLine", "no-such-word", false},
		{"CPUs", ">=1", true}, {"CPUs", ">=100000", false}, {"Capability", "CAP_CHOWN", true},
		{"Architecture", "ia64", false}, {"User", "no-such-user", false}, {"Security", "no-such-module", false},
	} {
		for _, kind := range []string{"Condition", "Assert"} {
			for _, negated := range []bool{false, true} {
				one := Condition{Type: kind + c.name, Negated: negated, Parameter: c.parameter}
				if unmet := (Ties{Conditions: []Condition{one}}).Unmet(t.Context()); (len(unmet) == 0) != (c.holds != negated) {
					t.Errorf("%v: unmet %v", one, unmet)
				}
			}
		}
	}
	for _, c := range []Condition{{Type: "ConditionOfTomorrow", Parameter: "x"}, {Type: "ConditionPathIsReadWrite", Parameter: "/proc"}} {
		if unmet := (Ties{Conditions: []Condition{c}}).Unmet(t.Context()); len(unmet) != 0 {
			t.Errorf("%v, which nobody can tell, is unmet", c)
		}
	}
	no := Condition{Type: "ConditionHost", Trigger: true, Parameter: "no-such-host"}
	if unmet := (Ties{Conditions: []Condition{no}}).Unmet(t.Context()); len(unmet) != 1 {
		t.Error("a trigger that does not hold, and the only one, is met")
	}
}
