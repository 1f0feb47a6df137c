package systemd

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitStatus is how a main process ended, as waitid(2) tells it.
type exitStatus struct{ code, status int32 }

// The si_code of SIGCHLD.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// String completes the sentence "the agent …".
func (e exitStatus) String() string {
	switch e.code {
	case cldExited:
		switch e.status {
		case 0:
			return "exited by itself (status 0, but a service has to stay)"
		case 203:
			return "could not be executed (status 203)"
		}
		return fmt.Sprintf("exited with status %d", e.status)
	case cldKilled:
		return "was killed by " + signalName(e.status)
	case cldDumped:
		return "was killed by " + signalName(e.status) + " and dumped core"
	}
	return "ended (systemd does not say how)"
}

// terminated reports whether a plain request to stop ended the process.
func (e exitStatus) terminated() bool {
	return e.code == cldKilled && e.status == int32(syscall.SIGTERM)
}

func signalName(n int32) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
