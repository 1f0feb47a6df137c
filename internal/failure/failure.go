// Package failure has the errors that commands end with: their text in three parts, and the kinds
// that decide a command's exit code and the record of the failure.
package failure

import (
	"cmp"
	"errors"
	"fmt"
)

// Error is a failure with its text for an operator, in three parts.
type Error struct {
	What  error     // what happened
	State Aftermath // what state the host is in
	Fix   string    // what to do; empty if What says it, or only waiting helps
}

// Aftermath is the state in which a failure leaves the host, or the store of a find server. The
// zero Aftermath belongs to a failure before the first change.
type Aftermath string

// Unchanged returns an error from before the first change. The arguments are formatted as by
// fmt.Errorf.
func Unchanged(format string, args ...any) *Error { return &Error{What: fmt.Errorf(format, args...)} }

// To says what to do.
func (e *Error) To(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

// Refused makes it a *RefusedError.
func (e *Error) Refused() error { return &RefusedError{e} }

func (e *Error) Error() string {
	text := e.What.Error() + "; " + e.State.String()
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

func (e *Error) Unwrap() error { return e.What }

func (s Aftermath) String() string { return cmp.Or(string(s), "nothing was changed") }

// In adds the state of the host to an error from after the first change; its origin could not know
// the state. Errors that are no *Error are returned as they are.
func In(s Aftermath, err error) error {
	if e, ok := err.(*Error); ok {
		return &Error{e.What, s, e.Fix}
	}
	return err
}

// NeedsPersonError is a state of the host that the updater cannot repair by itself. A command that
// finds it exits with 4.
type NeedsPersonError struct{ Err error }

func (e *NeedsPersonError) Error() string { return e.Err.Error() }
func (e *NeedsPersonError) Unwrap() error { return e.Err }

// RefusedError is a change that would put the host at risk. Nothing was changed.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse returns a *RefusedError.
func Refuse(format string, args ...any) error {
	return &RefusedError{fmt.Errorf(format, args...)}
}

// Is reports whether an error is of a kind, or wraps one that is.
func Is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
