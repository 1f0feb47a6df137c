package transaction

import (
	"errors"

	"golang.org/x/sys/unix"

	"teleport-update/internal/failure"
)

// ErrorCode is the cause of a failure as clusters know it: see state.LastUpdate.
func ErrorCode(cause error) (code int) {
	if errors.Is(cause, unix.ENOSPC) {
		code |= 1
	}
	if failure.Is[*reloadError](cause) {
		code |= 2
	}
	return code
}

// reloadError says that systemd did not read its files again.
type reloadError struct{ error }

func (e *reloadError) Unwrap() error { return e.error }
