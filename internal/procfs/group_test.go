package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestTheServiceThatAProcessBelongsTo(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/tbot.service\n":                                                 "tbot.service",
		"0::/system.slice/system-tbot.slice/tbot@a.service/sub\n":                         "tbot@a.service",
		"12:cpu:/system.slice/other.service\n1:name=systemd:/system.slice/tbot.service\n": "tbot.service",
		"0::/user.slice/user-0.slice/session-1.scope\n":                                   "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/tbot.service\n":       "",
		"0::/machine.slice/machine-a.scope/init.scope\n":                                  "",
		"0::/system.slice/containerd.service/docker-1.scope\n":                            "",
		"no control group\n": "",
	} {
		f := FS{Proc: t.TempDir()}
		if err := os.MkdirAll(filepath.Join(f.Proc, "7"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.Proc, "7", "cgroup"), []byte(groups), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := f.ServiceOf(7); got != want {
			t.Errorf("%q: it belongs to %q; want %q", groups, got, want)
		}
	}
}

// Who freezes a slice freezes all that is in it, and the uppermost group is the one to thaw.
func TestWhereAControlGroupIsFrozen(t *testing.T) {
	f := FS{Cgroups: t.TempDir()}
	for group, freeze := range map[string]string{"a.slice": "1", "a.slice/x.service": "1", "b.slice": "0", "b.slice/x.service": "1", "c.slice": "0",
		"c.slice/x.service": "0"} {
		dir := filepath.Join(f.Cgroups, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"cgroup.procs": "", "cgroup.freeze": freeze + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for group, want := range map[string]string{"/a.slice/x.service": "/a.slice", "/b.slice/x.service": "/b.slice/x.service", "/c.slice/x.service": "",
		"/d.slice/x.service": "", "": ""} {
		if got := f.FrozenAt(group); got != want {
			t.Errorf("%q is frozen at %q; want %q", group, got, want)
		}
	}
}

// A unit may have Slice=, and one from a template has a slice of its template. What a container or a
// person runs under the same name is another service.
func TestAServiceRunsInWhicheverSlice(t *testing.T) {
	_, program := versionDir(t)
	process := startProcess(t, program)
	for group, want := range map[string]bool{
		"system.slice/teleport.service":                                                      true,
		"apps.slice/teleport.service":                                                        true,
		"apps.slice/apps-agents.slice/teleport.service":                                      true,
		"system.slice/system-teleport.slice/teleport.service":                                true,
		"teleport.service":                                                                   false,
		"apps.slice/other.service":                                                           false,
		"machine.slice/machine-a.scope/system.slice/teleport.service":                        false,
		"machine.slice/systemd-nspawn@a.service/payload/system.slice/teleport.service":       false,
		"user.slice/user-1000.slice/user@1000.service/app.slice/teleport.service":            false,
		"system.slice/docker-1.scope/system.slice/teleport.service":                          false,
		"user.slice/user-1000.slice/user@1000.service/agents.slice/teleport.service/session": false,
	} {
		for _, hierarchy := range hierarchies {
			f := FS{Proc: "/proc", Cgroups: t.TempDir()}
			f.writeGroup(t, filepath.Join(hierarchy, "system.slice/teleport.service"), "") // as a stop leaves it for a moment
			f.writeGroup(t, filepath.Join(hierarchy, group), fmt.Sprintln(process.Process.Pid))
			if got := f.Runs("teleport.service"); got != want {
				t.Errorf("in the hierarchy %q, with a process in %s, teleport.service runs: %v; want %v", hierarchy, group, got, want)
			}
		}
	}
	if (FS{Proc: "/proc", Cgroups: t.TempDir()}).Runs("teleport.service") {
		t.Error("a service runs where there is no control group")
	}
}

func (f FS) writeGroup(t *testing.T, group, pids string) {
	t.Helper()
	dir := filepath.Join(f.Cgroups, group)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pids), 0o644); err != nil {
		t.Fatal(err)
	}
}
