package health

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/procfs"
)

func TestAProcessThatCameAndWentWasSighted(t *testing.T) {
	dir, program := versionDir(t)
	root := t.TempDir()
	group := filepath.Join(root, "system.slice/teleport.service")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	proc := procfs.FS{Proc: "/proc", Cgroups: root}
	agent := seen(*proc.Process(os.Getpid()), dir) // this test is the old process
	child, stranger := startProcess(t, program), startProcess(t, program)
	procs := fmt.Sprintf("%d\n%d\n", agent.pid, child.Process.Pid)
	if err := os.WriteFile(group+"/cgroup.procs", []byte(procs), 0o644); err != nil {
		t.Fatal(err)
	}

	s := &sights{proc: proc, group: "/system.slice/teleport.service", dir: dir, old: agent.identity}
	s.look()
	child.Process.Kill()
	child.Wait()
	s.look()
	seen := s.all()
	if len(seen) != 1 || seen[0].pid != child.Process.Pid {
		t.Errorf("sighted %+v; want only %d, not %d of another group", seen, child.Process.Pid, stranger.Process.Pid)
	}

	orphans := &sights{proc: proc, group: s.group, dir: dir, old: identity{pid: 1}}
	orphans.look()
	if seen := orphans.all(); len(seen) != 0 {
		t.Errorf("sighted %+v, which the old process did not start", seen)
	}
	var nobody *sights
	if nobody.all() != nil {
		t.Error("nobody has seen something")
	}
}

// versionDir returns a folder that holds a copy of sleep(1), and the path of that.
func versionDir(t *testing.T) (dir, program string) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir, err = filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "bin", "tele)port x") // a name that /proc/PID/stat does not escape
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// startProcess starts a program and returns when it executes.
func startProcess(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, "1000")
	for {
		err := cmd.Start()
		if err == nil {
			break
		}
		// A fork elsewhere in this test may hold the file open for writing.
		if !strings.Contains(err.Error(), "text file busy") {
			t.Fatal(err)
		}
		cmd = exec.Command(program, "1000")
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// A process that may not be looked at is neither dead nor another version's, whichever way it is
// hidden: as in a sandbox (its executable), or by hidepid= (its folder).
func TestAProcessThatMayNotBeLookedAtIsNotDead(t *testing.T) {
	_, program := versionDir(t)
	there, gone := startProcess(t, program), startProcess(t, program)
	gone.Process.Kill()
	gone.Wait()
	const unit = "/system.slice/teleport.service"
	for name, tc := range map[string]struct {
		pid    int
		group  bool
		hidden bool
	}{
		"the main process":          {there.Process.Pid, false, true},
		"the main process, gone":    {gone.Process.Pid, false, false},
		"the only one of the group": {there.Process.Pid, true, true},
		"one of the group, gone":    {gone.Process.Pid, true, false},
		"none":                      {0, false, false},
	} {
		cgroups := t.TempDir()
		if err := os.MkdirAll(cgroups+unit, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cgroups+unit+"/cgroup.procs", fmt.Appendf(nil, "%d\n", tc.pid), 0o644); err != nil {
			t.Fatal(err)
		}
		s := &sampler{unit: "teleport.service", proc: procfs.FS{Proc: t.TempDir(), Cgroups: cgroups}, group: tc.group}
		now := sample{}
		now.unit.ControlGroup = unit
		if !tc.group {
			now.unit.MainPID = uint32(tc.pid)
		}
		_, hidden := errors.AsType[*HiddenError](s.hidden(now))
		if hidden != tc.hidden {
			t.Errorf("%s: hidden %v; want %v", name, hidden, tc.hidden)
		}
	}
}
