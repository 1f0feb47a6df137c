// Package failure has the kinds of errors that decide with which exit code a
// command ends, and what is remembered of it.
package failure

import "fmt"

// NeedsPersonError is a state of the host that the updater cannot repair by
// itself. The command that meets it exits with 4.
type NeedsPersonError struct{ Err error }

func (e *NeedsPersonError) Error() string { return e.Err.Error() }
func (e *NeedsPersonError) Unwrap() error { return e.Err }

// RefusedError is a change that would put the host at risk. Nothing was changed.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Refuse returns a *RefusedError.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}
