package repository

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// removes takes the packages of a version out of the folder.
func (s *shelf) removes(version string) {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.packages, "*[_\\-]"+version+"[_\\-]*"))
	check(s.t, err)
	if len(found) == 0 {
		s.t.Fatalf("there are no packages of %s", version)
	}
	for _, path := range found {
		check(s.t, os.Remove(path))
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

// refuses asserts that nothing is published, and why.
func (s *shelf) refuses(want string, args ...string) {
	s.t.Helper()
	before, _ := os.Readlink(s.dir)
	says, err := s.try(args...)
	if err == nil || !strings.Contains(says, want) {
		s.t.Errorf("publish.sh %q: %v; want %q in\n%s", args, err, want, says)
	}
	if now, _ := os.Readlink(s.dir); now != before {
		s.t.Errorf("publish.sh %q has failed and changed what is served", args)
	}
}

// addsVersion is adds for the stand-ins of a version.
func (s *shelf) addsVersion(version string) {
	s.t.Helper()
	s.adds(standIns(s.t, version))
}

func (s *shelf) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	check(s.t, err)
	return string(data)
}

func (s *shelf) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// view is what a strict client sees. An error is a repository that is not whole.
func (s *shelf) view() (View, error) {
	v, err := Look(s.dir, s.key.Keyring)
	if err != nil {
		return v, fmt.Errorf("look at %s: %w", s.dir, err)
	}
	return v, nil
}
