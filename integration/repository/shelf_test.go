package repository

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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

// refuses asserts that nothing is published, and why.
func (s *shelf) refuses(want string, args ...string) {
	s.t.Helper()
	before := visible(s.t, s.dir)
	_, says, err := tryIn(s.t, s.env, s.now.Add(time.Hour), s.args(args...)...)
	if err == nil || !strings.Contains(says, want) {
		s.t.Errorf("mkrepository %q: %v; want %q in\n%s", args, err, want, says)
	}
	if visible(s.t, s.dir) != before {
		s.t.Errorf("mkrepository %q has failed and changed what is served", args)
	}
}

// offers asserts which versions each kind of host can get.
func (s *shelf) offers(versions ...string) {
	s.t.Helper()
	view, err := Look(s.dir, s.key.keyring)
	if err != nil {
		s.t.Errorf("%v", err)
		return
	}
	want := View{Yum: map[string][]string{"x86_64": nil, "aarch64": nil}}
	for _, v := range versions {
		want.Apt = append(want.Apt, "apt/pool/teleport-update_"+v+"_amd64.deb", "apt/pool/teleport-update_"+v+"_arm64.deb")
		for arch := range want.Yum {
			want.Yum[arch] = append(want.Yum[arch], "yum/"+arch+"/teleport-update-"+v+"-1."+arch+".rpm")
		}
	}
	if !reflect.DeepEqual(view, want) {
		s.t.Errorf("offered are %v; want %v", view, want)
	}
}

func (s *shelf) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

func (s *shelf) write(name, text string) {
	s.t.Helper()
	check(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

func (s *shelf) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	check(s.t, err)
	return string(data)
}
