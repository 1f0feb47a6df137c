//go:build hosts

package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A test that kills the process which made a host runs this binary once more,
// with this variable, to be that process.
const victimVariable = "HOST_TEST_VICTIM"

func victim() int {
	h, err := New(context.Background(), Options{})
	if err == nil {
		err = h.Boot(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(h.Name, h.running.leader)
	select {}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	h := ForTest(t, Options{})
	h.Background(Command{Args: []string{"sleep", "infinity"}})
	server, err := h.Serve("/bin/sleep", "infinity")
	if err != nil {
		t.Fatal(err)
	}
	leader := h.running.leader
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, h.Name, leader)
	select {
	case <-server.exited:
	case <-time.After(Patience):
		t.Error("the server is still running")
	}
	if err := h.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestAHostDoesNotOutliveItsProcess(t *testing.T) {
	t.Parallel()
	require(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var name string
	var leader int
	if _, err := fmt.Fscan(bufio.NewReader(out), &name, &leader); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if !alive(leader) {
		t.Fatal("swept while its process lives")
	}
	cmd.Process.Kill()
	cmd.Wait()
	Wait(t, 10*time.Second, func() error {
		if alive(leader) {
			return fmt.Errorf("PID 1 of the host is still running")
		}
		return nil
	})
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, name, leader)
}

// alive is false for a process that has ended, reaped or not.
func alive(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

func wantGone(t *testing.T, name string, leader int) {
	t.Helper()
	if alive(leader) {
		t.Error("PID 1 of the host is still running")
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), name) {
		t.Errorf("mounted: %v %s", err, mounts)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/run/systemd/nspawn/propagate/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.HasSuffix(f, name) {
				t.Errorf("left behind: %s", f)
			}
		}
	}
	hosts, err := hostsDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(hosts, name)); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
}
