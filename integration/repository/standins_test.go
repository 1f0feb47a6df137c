//go:build !hosts

package repository

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"teleport-update/packaging"
)

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

var nfpmOnce = sync.OnceValues(func() (string, error) {
	dir, err := world()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nfpm")
	return path, packaging.BuildTool(context.Background(), module, path)
})

// standIns is a folder with the stand-ins of a version. Nothing is signed.
func standIns(t testing.TB, version string) string {
	t.Helper()
	standInsOnce.Lock()
	defer standInsOnce.Unlock()
	dir, err := world()
	check(t, err)
	dir = filepath.Join(dir, "packages-"+version)
	if _, err := os.Stat(dir); err != nil {
		makeStandIns(t, dir+".new", version, "")
		check(t, os.Rename(dir+".new", dir))
	}
	return dir
}

var standInsOnce sync.Mutex

// makeStandIns writes the stand-ins of a version with a comment in their program.
func makeStandIns(t testing.TB, dir, version, comment string) {
	t.Helper()
	nfpm, err := nfpmOnce()
	check(t, err)
	check(t, StandIns(context.Background(), nfpm, dir, version, comment))
}
