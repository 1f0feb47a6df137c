package installer

import (
	"context"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// opens counts how often a file is opened while something is done.
func opens(t *testing.T, path string, do func()) (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	defer unix.Close(fd)
	// With its ends, or two openings that nobody has heard of yet would be one.
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE)
	must(t, err)
	do()
	events := make([]byte, 64<<10)
	read, err := unix.Read(fd, events)
	must(t, err)
	for at := 0; at < read; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&events[at]))
		if event.Mask&unix.IN_OPEN != 0 {
			n++
		}
		at += unix.SizeofInotifyEvent + int(event.Len)
	}
	return n
}

// A run with nothing to do reads updates.yaml before it waits for the lock, under the lock (and there once
// more, to see whether a journal was lost), and after that; and looks at the agent once.
func TestARunWithNothingToDoReadsTheHostOnce(t *testing.T) {
	w := newWorld(t)
	whole(t, w.Installer, version.Release{Version: "1.1.0", Edition: version.OSS})
	c, err := w.Machine.Host.Paths.LoadConfig()
	must(t, err)
	c.Spec.Proxy, c.Spec.Enabled, c.Spec.ActiveVersion = w.url, true, "1.1.0"
	c.Status = state.Status{ActiveEdition: version.OSS, ActiveSchema: "noted"}
	must(t, c.Save(w.Machine.Host.Paths.Config()))
	connect, n := sightOf(w.Installer, func(*systemd.Unit, *string) {}), 0
	w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		a, err := connect(ctx)
		return looks{a.(seen), &n}, err
	}
	must(t, w.Update(t.Context(), UpdateOptions{})) // which puts right what the test has left out
	n = 0
	read := opens(t, w.Machine.Host.Paths.Config(), func() { must(t, w.Update(t.Context(), UpdateOptions{})) })
	if read != 4 || n != 1 {
		t.Errorf("updates.yaml is read %d times, want 4; the agent is looked at %d times, want once", read, n)
	}
}
