package systemd

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
	proc := procfs{root: "/"}
	dir, program := versionDir(t)
	child := startProcess(t, program)
	p := proc.process(child.Process.Pid, dir)
	if p == nil || !p.inside || p.exe != program || p.parent != os.Getpid() || p.start == 0 {
		t.Fatalf("process %+v; want one inside that this test started", p)
	}
	if p := proc.process(child.Process.Pid, dir+"/bin/tele"); p == nil || p.inside {
		t.Errorf("process %+v; want one outside a folder whose name begins alike", p)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if p := proc.process(child.Process.Pid, ""); p == nil || !p.inside {
		t.Errorf("process %+v; want one that will do, where any will", p)
	}
	if p := proc.process(child.Process.Pid, dir); p == nil || p.inside {
		t.Errorf("process %+v; want one outside, its executable is deleted", p)
	}
}

func TestAProcessThatIsDeadButNotBuriedIsGone(t *testing.T) {
	proc := procfs{root: "/"}
	dir, program := versionDir(t)
	child := startProcess(t, program)
	before := proc.process(child.Process.Pid, dir)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); proc.process(child.Process.Pid, dir) != nil; {
		if time.Since(began) > time.Minute {
			t.Fatal("the zombie counts as a live process")
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", child.Process.Pid)); err != nil {
		t.Fatal("the zombie was buried: this test shows nothing")
	}
	if before == nil || proc.process(1<<30, dir) != nil {
		t.Errorf("a live process is %+v, one that never was is not nil", before)
	}
}

func TestTheProcessesOfAControlGroup(t *testing.T) {
	dir, program := versionDir(t)
	main, session := startProcess(t, program), startProcess(t, program)
	dead := startProcess(t, program)
	dead.Process.Kill()
	dead.Wait()
	for _, hierarchy := range []string{"", "unified", "systemd"} {
		t.Run("in the hierarchy "+hierarchy, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil {
				t.Fatal(err)
			}
			group := filepath.Join(root, "sys/fs/cgroup", hierarchy, "system.slice/teleport.service")
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
			for _, p := range (procfs{root}).group("/system.slice/teleport.service", dir) {
				pids = append(pids, p.pid)
			}
			want := []int{main.Process.Pid, session.Process.Pid}
			if !slices.Equal(pids, want) {
				t.Errorf("processes %v; want %v", pids, want)
			}
			for _, none := range []string{"/system.slice/other.service", ""} {
				if found := (procfs{root}).group(none, dir); found != nil {
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
			if got := (procfs{root}).pidFile("/teleport.pid"); got != w.want {
				t.Errorf("%d; want %d", got, w.want)
			}
		})
	}
	if got := (procfs{root}).pidFile("/none.pid"); got != 0 {
		t.Errorf("a missing file says %d", got)
	}
	if got := (procfs{root}).pidFile(""); got != 0 {
		t.Errorf("no file says %d", got)
	}
}

func TestHowAProcessEnded(t *testing.T) {
	for want, e := range map[string]exitStatus{
		"exited with status 1":                      {cldExited, 1},
		"could not be executed (status 203)":        {cldExited, 203},
		"was killed by SIGKILL":                     {cldKilled, int32(syscall.SIGKILL)},
		"was killed by SIGSEGV and dumped core":     {cldDumped, int32(syscall.SIGSEGV)},
		"was killed by signal 40":                   {cldKilled, 40},
		"ended":                                     {},
		"exited by itself (status 0, but a service": {cldExited, 0},
	} {
		if got := e.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestTheExitCodeOfATransientUnit(t *testing.T) {
	for _, w := range []struct {
		exit exitStatus
		code int
		err  string
	}{
		{exitStatus{cldExited, 0}, 0, ""},
		{exitStatus{cldExited, 4}, 4, ""},
		{exitStatus{cldExited, 203}, -1, "could not be executed"},
		{exitStatus{cldKilled, 15}, 143, "killed by SIGTERM"},
		{exitStatus{}, -1, "did not run"},
	} {
		code, err := w.exit.shellCode("x.service", "exit-code")
		if code != w.code || (err == nil) != (w.err == "") || err != nil && !strings.Contains(err.Error(), w.err) {
			t.Errorf("%+v gives %d, %v; want %d, %q", w.exit, code, err, w.code, w.err)
		}
	}
}
