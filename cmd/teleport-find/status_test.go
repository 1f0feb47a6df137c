package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/sharedbuffer"
)

// A bar is full with the last host only, and not empty from the first one on.
func TestBars(t *testing.T) {
	for _, tc := range []struct{ part, whole, want int }{{0, 0, 0}, {0, 10, 0}, {1, 1000, 1}, {500, 1000, 10}, {999, 1000, 19}, {1000, 1000, 20}, {11, 10, 20}, {3, 0, 0}} {
		if got := strings.Count(bar(tc.part, tc.whole), "#"); got != tc.want || len(bar(tc.part, tc.whole)) != barWidth+2 {
			t.Errorf("%d of %d is %s; want %d", tc.part, tc.whole, bar(tc.part, tc.whole), tc.want)
		}
	}
}

// More versions than fit are one column, and numbers stand at the right.
func TestTheMatrixOfVersions(t *testing.T) {
	versions := make(map[rollout.Semver]int)
	for i := range 12 {
		versions[rollout.Semver(fmt.Sprintf("1.%d.0", i))] = 12 - i
	}
	versions[""] = 100
	var out bytes.Buffer
	if err := versionTable(fleetStatus{Overview: adminapi.Overview{Overview: rollout.Overview{Groups: []rollout.GroupOverview{{Name: "dev", Versions: versions}, {Name: "a long name"}}}}}).print(&out); err != nil {
		t.Fatal(err)
	}
	want := "HOSTS BY VERSION  no agent  1.0.0  1.1.0  1.2.0  1.3.0  1.4.0  1.5.0  1.6.0  others\n" +
		"dev                    100     12     11     10      9      8      7      6      15\n" +
		"a long name              0      0      0      0      0      0      0      0       0\n"
	if out.String() != want {
		t.Errorf("it is\n%s\nwant\n%s", out.String(), want)
	}
}

// A watch prints what has changed, waits for a server that is away, and ends when it is
// told to.
func TestAWatchOfTheStatus(t *testing.T) {
	dir := t.TempDir()
	a := &adminRun{t: t, dir: dir}
	start := func() *process {
		return serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", filepath.Join(dir, "store", "store.db"), "--admin-socket", a.socket())
	}
	s := start()
	var out, log sharedbuffer.Buffer
	cmd := exec.Command(binary(t), "status", "--watch", "--every", "20ms", "--admin-socket", a.socket())
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	wait := func(what string, seen func() bool) {
		t.Helper()
		s.until(what+"\n"+out.String()+log.String(), seen)
	}
	wait("there is no first status", func() bool { return strings.HasPrefix(out.String(), "unset: ") })
	a.run("", "set-version", "15.1.1", "--schedule", "immediate")
	wait("a change is not shown", func() bool { return strings.Contains(out.String(), "\n\ndisabled: ") })
	s.stop(os.Kill)
	wait("that the server is away is not said", func() bool { return strings.Contains(log.String(), "no find server listens") })
	s = start()
	wait("the server is not found again", func() bool { return strings.Count(out.String(), "\ndisabled: ") >= 2 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if got := strings.Count(out.String(), "unset: "); got != 1 {
		t.Errorf("what has not changed is printed %d times", got)
	}
}
