package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestAProcessThatCameAndWentWasSighted(t *testing.T) {
	dir, program := versionDir(t)
	root := t.TempDir()
	if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(root, "sys/fs/cgroup/system.slice/teleport.service")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	proc := procfs{root}
	agent := proc.process(os.Getpid(), dir) // this test is the old process
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

func TestJobsOnTheUnitAreHeard(t *testing.T) {
	c := &Conn{}
	l := c.newListener("teleport.service")
	job := func(name string, id uint32, unit string) *dbus.Signal {
		return &dbus.Signal{Name: name, Body: []any{id, dbus.ObjectPath("/job"), unit, "done"}}
	}
	for _, w := range []struct {
		name   string
		signal *dbus.Signal
		jobs   int
		woken  bool
	}{
		{"a job on another unit", job(jobNew, 1, "ssh.service"), 0, false},
		{"a job on this one", job(jobNew, 2, "teleport.service"), 1, true},
		{"its end", job(jobRemoved, 2, "teleport.service"), 1, true},
		{"our own job", job(jobNew, 7, "teleport.service"), 1, true},
		{"the end of one that began before", job(jobRemoved, 3, "teleport.service"), 2, true},
		{"a change of this unit", &dbus.Signal{Name: changed, Path: "/org/freedesktop/systemd1/unit/teleport_2eservice"}, 2, true},
		{"a change of another unit", &dbus.Signal{Name: changed, Path: "/org/freedesktop/systemd1/unit/ssh_2eservice"}, 2, false},
		{"something else", &dbus.Signal{Name: "org.freedesktop.systemd1.Manager.UnitNew"}, 2, false},
		{"a signal without content", &dbus.Signal{Name: jobNew}, 2, false},
	} {
		l.hear(w.signal)
		woken := false
		select {
		case <-l.wake:
			woken = true
		default:
		}
		if got := l.otherJobs(7); got != w.jobs || woken != w.woken {
			t.Errorf("%s: %d jobs of others, woken %v; want %d, %v", w.name, got, woken, w.jobs, w.woken)
		}
	}
	l.ignoreUntil(2)
	if got := l.otherJobs(7); got != 1 {
		t.Errorf("%d jobs of others after the second; want 1", got)
	}
}

func TestGoSystemdHearsOnlyOfJobsThatEnd(t *testing.T) {
	h := &signalHub{listeners: map[*listener]bool{}}
	c := make(chan *dbus.Signal, 10)
	h.AddSignal(c)
	for _, name := range []string{changed, jobNew, jobRemoved, changed} {
		h.DeliverSignal("", "", &dbus.Signal{Name: name})
	}
	h.Terminate()
	var got []string
	for s := range c {
		got = append(got, s.Name)
	}
	if len(got) != 1 || got[0] != jobRemoved {
		t.Errorf("heard %q; want only the end of the job", got)
	}
	h.DeliverSignal("", "", &dbus.Signal{Name: jobRemoved}) // must not reach a closed channel
}
