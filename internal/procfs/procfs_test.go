package procfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

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

func TestAProcessIsKnownByWhatItExecutes(t *testing.T) {
	dir, program := versionDir(t)
	child := startProcess(t, program)
	p := Host().Process(child.Process.Pid)
	if p == nil || !p.Inside(dir) || p.Exe != program || p.Parent != os.Getpid() || p.Start == 0 {
		t.Fatalf("process %+v; want one inside that this test started", p)
	}
	if p.Inside(dir + "/bin/tele") {
		t.Errorf("process %+v is inside a folder whose name begins alike", p)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	p = Host().Process(child.Process.Pid)
	if p == nil || !p.Inside("") {
		t.Errorf("process %+v; want one that will do, where any will", p)
	}
	if p == nil || p.Inside(dir) {
		t.Errorf("process %+v; want one outside, its executable is deleted", p)
	}
	if p == nil || !p.CameFrom(dir) {
		t.Errorf("process %+v; want one that came from there, though its executable is deleted", p)
	}
}

func TestAProcessThatASignalStoppedIsHalted(t *testing.T) {
	_, program := versionDir(t)
	child := startProcess(t, program).Process
	for _, c := range []struct {
		signal syscall.Signal
		halted bool
	}{{syscall.SIGCONT, false}, {syscall.SIGSTOP, true}, {syscall.SIGCONT, false}} {
		if err := child.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		for { // until the kernel has it so
			if p := Host().Process(child.Pid); p != nil && p.Halted == c.halted {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAProcessThatIsDeadButNotBuriedIsGone(t *testing.T) {
	proc := Host()
	_, program := versionDir(t)
	child := startProcess(t, program)
	before := proc.Process(child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); proc.Process(child.Process.Pid) != nil; {
		if time.Since(began) > time.Minute {
			t.Fatal("the zombie counts as a live process")
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", child.Process.Pid)); err != nil {
		t.Fatal("the zombie was buried: this test shows nothing")
	}
	if before == nil || proc.Process(1<<30) != nil {
		t.Errorf("a live process is %+v, one that never was is not nil", before)
	}
}

func TestTheProcessesOfAControlGroup(t *testing.T) {
	_, program := versionDir(t)
	main, session := startProcess(t, program), startProcess(t, program)
	dead := startProcess(t, program)
	dead.Process.Kill()
	dead.Wait()
	for _, hierarchy := range []string{"", "unified", "systemd"} {
		t.Run("in the hierarchy "+hierarchy, func(t *testing.T) {
			root := t.TempDir()
			proc := FS{Proc: "/proc", Cgroups: root}
			group := filepath.Join(root, hierarchy, "system.slice/teleport.service")
			for path, pids := range map[string]string{
				group:                               fmt.Sprintf("%d\n%d\n", main.Process.Pid, dead.Process.Pid),
				filepath.Join(group, "sessions/17"): fmt.Sprintf("%d\n", session.Process.Pid),
				filepath.Join(group, "sessions"):    "",
			} {
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(pids), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var pids []int
			for _, p := range proc.Group("/system.slice/teleport.service") {
				pids = append(pids, p.PID)
			}
			want := []int{main.Process.Pid, session.Process.Pid}
			if !slices.Equal(pids, want) {
				t.Errorf("processes %v; want %v", pids, want)
			}
			for _, none := range []string{"/system.slice/other.service", ""} {
				if found := proc.Group(none); found != nil {
					t.Errorf("the control group %q has %+v", none, found)
				}
			}
		})
	}
}

func TestThePIDFile(t *testing.T) {
	root := t.TempDir()
	for _, w := range []struct {
		name, content string
		want          int
	}{
		{"a number", "4711", 4711},
		{"a number and a line end", "4711\n", 4711},
		{"nothing yet", "", 0},
		{"no number", "teleport", 0},
		{"a negative number", "-1", 0},
		{"too much", strings.Repeat("1", 100), 0},
	} {
		t.Run(w.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(root, "teleport.pid"), []byte(w.content), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := PIDFile(root + "/teleport.pid"); got != w.want {
				t.Errorf("%d; want %d", got, w.want)
			}
		})
	}
	if got := PIDFile(root + "/none.pid"); got != 0 {
		t.Errorf("a missing file says %d", got)
	}
	if got := PIDFile(""); got != 0 {
		t.Errorf("no file says %d", got)
	}
}

func TestGroupsOf(t *testing.T) {
	for _, tc := range []struct {
		name, groups string
		want         bool
	}{
		{"in the agent's group", "0::/system.slice/teleport.service\n", true},
		{"below it", "0::/system.slice/teleport.service/sessions/7\n", true},
		{"with controllers of their own", "4:memory:/user.slice\n1:name=systemd:/system.slice/teleport.service\n0::/\n", true},
		{"the updater's own unit", "0::/system.slice/teleport-update.service\n", false},
		{"a switch", "0::/system.slice/teleport-update-switch-abcdefghij.service\n", false},
		{"a switch in a container that another host's agent runs", "0::/system.slice/teleport.service/payload/system.slice/teleport-update-switch-abcdefghij.service\n", false},
		{"a shell of somebody who logged in", "0::/user.slice/user-0.slice/session-3.scope\n", false},
		{"no line at all", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := groupsOf(tc.groups, "teleport.service"); got != tc.want {
				t.Errorf("got %v; want %v", got, tc.want)
			}
		})
	}
}

func TestAProcessIsForkedUntilItExecutesTheProgramOfItsUnit(t *testing.T) {
	dir := t.TempDir()
	f := FS{Proc: dir}
	add := func(pid, parent int, exe string) Process {
		t.Helper()
		at := filepath.Join(dir, fmt.Sprint(pid))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		stat := fmt.Sprintf("%d (x) S %d%s\n", pid, parent, strings.Repeat(" 0", 30))
		if err := os.WriteFile(filepath.Join(at, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(at, "exe"))
		if err := os.Symlink(exe, filepath.Join(at, "exe")); err != nil {
			t.Fatal(err)
		}
		p := f.Process(pid)
		if p == nil {
			t.Fatalf("process %d is not seen", pid)
		}
		return *p
	}
	const manager = "/usr/lib/systemd/systemd"
	for _, first := range []string{manager, manager + deleted} {
		add(1, 0, first)
		for exe, want := range map[string]bool{
			manager: true, manager + deleted: true, "/usr/lib/systemd/systemd-executor": true,
			"/usr/lib/systemd/systemd-logind": false, "/usr/local/bin/teleport": false, "/bin/systemd-executor": false,
		} {
			if got := f.Forked(add(7, 1, exe)); got != want {
				t.Errorf("PID 1 is %s: %s is forked: %v, want %v", first, exe, got, want)
			}
		}
		if f.Forked(add(7, 5, manager)) {
			t.Error("the manager of a user is no process that is being set up")
		}
	}
}
