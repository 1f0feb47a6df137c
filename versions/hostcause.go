package versions

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"

	"teleport-update/internal/failure"
)

// HostError marks an error of this host: it speaks against no version, and another mirror would not help.
type HostError struct{ Err error }

func (e *HostError) Error() string { return e.Err.Error() }

func (e *HostError) Unwrap() error { return e.Err }

// scarce are texts that the Go runtime and the linker print before they give up on a host without memory for them, or
// without room for a thread, as under `ulimit -v`, LimitAS=, MemoryMax= or TasksMax=. The numbers are EAGAIN and ENOMEM.
var scarce = []string{"cannot allocate memory", "out of memory", "failed to create new os thread", "failed to reserve",
	"failed to map segment", "errno=11", "errno=12", "resource temporarily unavailable"}

// blameHost marks the end of a program as an error of the host if the kernel killed it for want of memory, or its own runtime
// ended it. If a program prints such a text for another reason, its failure only counts less against the version.
func blameHost(err error, out string) error {
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok || failure.Is[*HostError](err) {
		return err
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	for _, words := range scarce {
		killed = killed || strings.Contains(strings.ToLower(out), words)
	}
	if killed {
		return &HostError{err}
	}
	return err
}
