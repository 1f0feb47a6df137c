package parts

import "fmt"

// RefusedError is the error of a request that is well formed, but not valid.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }
func (e *RefusedError) Unwrap() error { return e.err }

// Refuse returns a *RefusedError with the given reason.
func Refuse(err error) error { return &RefusedError{err} }

// Refusef is Refuse for a reason in the form of fmt.Errorf.
func Refusef(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Attempts is how often a change without a base revision is tried again after a
// conflict with others.
const Attempts = 10
