package systemd

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExitStatus is how a main process ended, as waitid(2) tells it. The zero value is
// that of one which did not end, or of which systemd does not say how.
type ExitStatus struct{ Code, Status int32 }

// Codes of an ExitStatus: the si_code of SIGCHLD.
const (
	Exited = 1
	Killed = 2
	Dumped = 3
)

// String completes the sentence "the agent …".
func (e ExitStatus) String() string {
	switch e.Code {
	case Exited:
		switch e.Status {
		case 0:
			return "exited by itself (status 0, but a service has to stay)"
		case 203:
			return "could not be executed (status 203)"
		}
		return fmt.Sprintf("exited with status %d", e.Status)
	case Killed:
		return "was killed by " + signalName(e.Status)
	case Dumped:
		return "was killed by " + signalName(e.Status) + " and dumped core"
	}
	return "ended (systemd does not say how)"
}

// Ended completes the sentence "the agent …": how the unit's main process ended, and why,
// where the process was only told to. One that handles the request to stop exits with 0.
func (u Unit) Ended() string {
	if u.Result == "timeout" && (u.Exit.Code == Exited || u.Exit.Terminated()) {
		return fmt.Sprintf("did not say within %v that it is ready, so that systemd stopped it", u.StartTimeout)
	}
	return u.Exit.String()
}

// Terminated reports whether a plain request to stop ended the process.
func (e ExitStatus) Terminated() bool {
	return e.Code == Killed && e.Status == int32(syscall.SIGTERM)
}

func signalName(n int32) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
