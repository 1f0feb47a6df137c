package systemd

import (
	"errors"
	"strings"

	"github.com/godbus/dbus/v5"
)

// ResultDependency is the result of a job whose unit needs another one, which did not start.
const ResultDependency = "dependency"

// ResultFrozen is the result of a job that systemd (257) does not begin because the unit or its slice is frozen.
const ResultFrozen = "frozen"

// IsRefused reports whether an error is that systemd refused a job before it began: by a policy, because of a unit file, of the
// unit or of one that it needs, or because the unit is frozen. It says nothing about what was to be started, and nothing was changed.
func IsRefused(err error) bool {
	if IsDenied(err) {
		return true
	}
	job, ok := errors.AsType[*JobError](err)
	if !ok {
		return false
	}
	if job.Result == ResultFrozen {
		return true
	}
	e, ok := errors.AsType[dbus.Error](job.Err)
	return ok && strings.HasPrefix(e.Name, "org.freedesktop.systemd1.")
}

// IsPrevented reports whether an error says something about other units or the host, and nothing about what was to be
// started: systemd refused the job, did not begin it, or ended it because a unit that is needed did not start.
func IsPrevented(err error) bool {
	job, ok := errors.AsType[*JobError](err)
	return IsRefused(err) || ok && (job.Result == ResultWaiting || job.Result == ResultDependency)
}
