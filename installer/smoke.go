package installer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"teleport-update/installer/policy"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// SmokeError is a release that was unpacked but does not run here. It counts
// against the version.
type SmokeError struct {
	Release state.Tree
	Err     error
}

func (e *SmokeError) Error() string {
	return fmt.Sprintf("version %s cannot be used on this host: %v", e.Release, e.Err)
}

func (e *SmokeError) Unwrap() error { return e.Err }

// ofHost reports whether a program could not be run for a cause of the host's, which speaks
// against no version: a file system that is mounted noexec or is full, a folder that others can write, or too little
// memory. A program that gives no answer in time counts against its version.
func ofHost(err error) bool {
	if failure.Is[*versions.HostError](err) {
		return true
	}
	for _, cause := range []error{
		unix.EACCES, unix.EPERM, unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EROFS, unix.EIO, unix.ENOMEM, unix.EAGAIN,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// checkLocal is what obtain does for a version that is there, without a network
// to fetch it again.
func checkLocal(ctx context.Context, tree versions.Tree) error {
	if err := tree.Verify(ctx); err != nil {
		return failure.Unchanged("%w", err).To("`teleport-update pin %s` fetches it again", tree.Release.Version)
	}
	if err := tree.Smoke(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &SmokeError{Release: transaction.TreeOf(tree), Err: err}
	}
	return nil
}

// checkEdition compares what the program of a tree says of its edition with the one that was
// asked for: neither its name nor the tarball's signature does. An unsigned one that has run
// here under its name is made whole and gone back to, whatever it says.
func checkEdition(ctx context.Context, t versions.Tree, ran bool) error {
	file, err := t.Signature()
	if err != nil || file == nil && ran {
		return err
	}
	word, err := versions.ProgramEdition(ctx, t.Binary("teleport"))
	if err != nil {
		return err
	}
	if refusal := policy.CheckEdition(t.Release, word); refusal != nil {
		if file == nil {
			return errors.New(policy.Reason(refusal)) // no policy has a part in it
		}
		return refusal
	}
	return nil
}
