package rollout

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Faults is the error of a resource with several faults. It lists all of them, each with its path, so that one attempt
// shows them all.
type Faults struct{ list []error }

const (
	// maxFaults is how many faults are kept.
	maxFaults = 50
	// maxFaultText is how many bytes an error shows of them.
	maxFaultText = 1000
)

// Error implements error, in one line.
func (f *Faults) Error() string {
	text := f.list[0].Error()
	for i, err := range f.list[1:] {
		next := "; " + err.Error()
		if len(text)+len(next) > maxFaultText {
			return fmt.Sprintf("%s; and %d more", text, len(f.list)-1-i)
		}
		text += next
	}
	return text
}

// Unwrap returns all of them.
func (f *Faults) Unwrap() []error { return f.list }

// faults are the faults found so far.
type faults []error

// add adds the faults of an error, which may be nil.
func (f *faults) add(err error) {
	if err == nil {
		return
	}
	several, ok := errors.AsType[*Faults](err)
	list := []error{err}
	if ok {
		list = several.list
	}
	*f = append(*f, list[:min(len(list), maxFaults-len(*f))]...)
}

// addf adds a fault if wrong is true.
func (f *faults) addf(wrong bool, format string, args ...any) {
	if wrong {
		f.add(fmt.Errorf(format, args...))
	}
}

// full reports whether further faults are dropped.
func (f faults) full() bool { return len(f) >= maxFaults }

// err returns nil, the only fault, or all of them as *Faults.
func (f faults) err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return &Faults{f}
}

var linePrefix = regexp.MustCompile(`^line [0-9]+: `)

// pathOf is the path that the text of a fault begins with.
func pathOf(err error) string {
	path, _, _ := strings.Cut(linePrefix.ReplaceAllString(err.Error(), ""), ": ")
	return path
}

// following returns all faults, without those in found that only follow from a value that could not be read.
func following(unread, found error) error {
	var all faults
	all.add(unread)
	if found == nil {
		return all.err()
	}
	read := all
	var of faults
	of.add(found)
	for _, err := range of {
		fromUnread := false
		for _, before := range read {
			fromUnread = fromUnread || pathOf(err) == pathOf(before)
		}
		if !fromUnread {
			all.add(err)
		}
	}
	return all.err()
}
