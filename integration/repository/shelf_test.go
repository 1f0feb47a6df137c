package repository

import (
	"os"
	"path/filepath"
	"testing"

	"teleport-update/integration/signer"
)

// shelf is a repository that a test publishes into, and the folder of its packages.
type shelf struct {
	t        *testing.T
	key      *signer.Key
	packages string
	dir      string   // the link
	env      []string // besides the test's own
}

func newShelf(t *testing.T) *shelf {
	dir := t.TempDir()
	s := &shelf{t: t, key: keyNumber(t, 0), packages: filepath.Join(dir, "packages"), dir: filepath.Join(dir, "repository")}
	check(t, os.Mkdir(s.packages, 0o755))
	return s
}

// adds copies packages from a folder.
func (s *shelf) adds(from string) {
	s.t.Helper()
	entries, err := os.ReadDir(from)
	check(s.t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		check(s.t, err)
		check(s.t, os.WriteFile(filepath.Join(s.packages, e.Name()), data, 0o644))
	}
}

func (s *shelf) try(args ...string) (says string, err error) {
	cmd := s.key.Publish(append([]string{"--packages", s.packages, "--to", s.dir}, args...)...)
	cmd.Env = append(cmd.Env, s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *shelf) publish(args ...string) (says string) {
	s.t.Helper()
	says, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("publish.sh %q: %v\n%s", args, err, says)
	}
	return says
}

func (s *shelf) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	check(s.t, err)
	return string(data)
}
