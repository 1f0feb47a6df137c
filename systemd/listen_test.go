package systemd

import (
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestJobsOnTheUnitAreHeard(t *testing.T) {
	c := &Conn{}
	l := c.Listen("teleport.service")
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
		if got := l.OtherJobs(7); got != w.jobs || woken != w.woken {
			t.Errorf("%s: %d jobs of others, woken %v; want %d, %v", w.name, got, woken, w.jobs, w.woken)
		}
	}
	l.IgnoreUntil(2)
	if got := l.OtherJobs(7); got != 1 {
		t.Errorf("%d jobs of others after the second; want 1", got)
	}
}

func TestGoSystemdHearsOnlyOfJobsThatEnd(t *testing.T) {
	h := &signalHub{listeners: map[*Listener]bool{}}
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
