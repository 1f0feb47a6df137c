package repository

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// shelf is a repository that a test publishes into, an hour later each time.
type shelf struct {
	t   *testing.T
	key key
	dir string
	now time.Time
	env []string // besides the test's own
}

func newShelf(t *testing.T) *shelf {
	return &shelf{t: t, key: keyNumber(t, 0), dir: filepath.Join(t.TempDir(), "repository"), now: begun}
}

func (s *shelf) args(args ...string) []string {
	if !slices.Contains(args, "--key") && !slices.Contains(args, "--gpg-key") {
		args = append(args, "--key", s.key.secret)
	}
	if !slices.Contains(args, "--packages") {
		args = append(args, "--packages", "")
	}
	return append(args, "--to", s.dir)
}

func (s *shelf) publish(args ...string) (says string) {
	s.t.Helper()
	s.now = s.now.Add(time.Hour)
	out, errors, err := tryIn(s.t, s.env, s.now, s.args(args...)...)
	if err != nil {
		s.t.Fatalf("mkrepository %q: %v\n%s%s", args, err, out, errors)
	}
	return out
}

func (s *shelf) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	check(s.t, err)
	return string(data)
}
