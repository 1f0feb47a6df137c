package parts

import "fmt"

// RefusedError is the error of what is well formed and yet cannot be.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }
func (e *RefusedError) Unwrap() error { return e.err }

// Refuse returns a *RefusedError for the reason that is given.
func Refuse(err error) error { return &RefusedError{err} }

// Refusef is Refuse for a reason in the form of fmt.Errorf.
func Refusef(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Attempts is how often a change that is based on no revision tries to come
// between the changes of others.
const Attempts = 10
