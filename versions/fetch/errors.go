package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"teleport-update/versions"
)

// ErrNotFound says that a source does not have the release.
var ErrNotFound = errors.New("release not found")

// errChanged means that the content behind a URL changed.
var errChanged = errors.New("the tarball changed at the server while it was downloaded")

// errStopped ends a download whose reader needs no more. It never causes a failure.
var errStopped = errors.New("nothing more is needed")

// unusableError is a useless answer: not worth another try.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

func unusable(format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...)}
}

// permanent reports whether trying the same mirror again is of no use.
func permanent(err error) bool {
	_, useless := errors.AsType[*unusableError](err)
	if _, oversized := errors.AsType[*OversizedError](err); oversized {
		return true
	}
	return useless || permanentOfWeb(err) || errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrPermission)
}

// restartError means that the stream cannot continue and must begin again from its first byte,
// with the download's current mirror.
type restartError struct{ err error }

func (e *restartError) Error() string { return e.err.Error() }
func (e *restartError) Unwrap() error { return e.err }

// local marks an error of this host: another mirror would not help.
func local(err error) error { return &versions.HostError{Err: err} }

// failures collects the reasons why mirrors failed.
type failures struct {
	release versions.Release
	reasons []string
	errs    []error
}

// add notes why a mirror, by its name for logs, failed.
func (f *failures) add(mirror string, err error) {
	text := err.Error()
	if !strings.Contains(text, mirror) {
		text = mirror + ": " + text
	}
	f.reasons = append(f.reasons, text)
	f.errs = append(f.errs, err)
}

func (f *failures) Error() string {
	hint := " (is the URL template right, and the version published?)"
	for _, err := range f.errs {
		if !errors.Is(err, ErrNotFound) {
			hint = ""
		}
	}
	return fmt.Sprintf("fetch version %s: %s%s", f.release, strings.Join(f.reasons, "; "), hint)
}

// NoMirror reports whether an error means that no source gave the release.
func NoMirror(err error) bool {
	_, is := errors.AsType[*failures](err)
	return is
}

func (f *failures) Unwrap() []error { return f.errs }
