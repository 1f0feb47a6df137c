package transaction

import "testing"

// sampled is a sweep of which -short runs one case of so many, for whoever edits this package. All cases
// run without -short, as in `make test`.
type sampled struct{ every, seen int }

func (s *sampled) skips() bool {
	s.seen++
	return testing.Short() && s.seen%s.every != 0
}
