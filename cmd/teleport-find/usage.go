package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usageErrorf(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }
