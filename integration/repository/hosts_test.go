//go:build hosts

package repository

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/signer"
	"teleport-update/packaging"
)

func TestMain(m *testing.M) {
	host.Share(2)
	os.Exit(cleaned(func() int { return host.Main(m, host.Find()) }))
}

const address = "127.0.0.1:3080"

// site is a host and the server that it gets packages from: teleport-find, which
// serves what the link current leads to.
type site struct {
	*host.Test
	*shelf
	t       *testing.T
	current string
	server  *host.Server
}

func newSite(t *testing.T, o host.Options) *site {
	t.Helper()
	s := &site{Test: host.ForTest(t, o), shelf: newShelf(t), t: t, current: filepath.Join(t.TempDir(), "current")}
	s.adds(updaters(t, "1.0.0"))
	s.publish("--url", "http://"+address)
	s.serves(s.dir)
	var err error
	s.server, err = s.ServeFind(t.Context(), address, "serve", "--listen", address, "--repository", s.current)
	check(t, err)
	return s
}

// serves lets hosts see another folder from now on.
func (s *site) serves(dir string) {
	s.t.Helper()
	check(s.t, os.RemoveAll(s.current+".new"))
	check(s.t, os.Symlink(dir, s.current+".new"))
	check(s.t, os.Rename(s.current+".new", s.current))
}

// copied is a copy of what is published, to be changed.
func (s *site) copied() string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "copy")
	check(s.t, os.CopyFS(dir, os.DirFS(s.dir)))
	return dir
}

// damage changes a byte of a file in the middle.
func damage(t *testing.T, dir, pattern string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	check(t, err)
	if len(found) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		check(t, err)
		data[len(data)/2] ^= 1
		check(t, os.WriteFile(path, data, 0o644))
	}
}

// other publishes the updater of a version with a key, in a repository of its own, which dir is a copy of.
func (s *site) other(dir, version string, key *signer.Key, args ...string) {
	s.t.Helper()
	o := newShelf(s.t)
	o.key = key
	o.adds(updaters(s.t, version))
	o.publish(append(args, "--url", "http://"+address)...)
	check(s.t, os.RemoveAll(dir))
	check(s.t, os.CopyFS(dir, os.DirFS(o.dir)))
}

// expired publishes the updater of 1.0.0 in a repository that ends a moment later.
func (s *site) expired(dir string) {
	s.t.Helper()
	s.other(dir, "1.0.0", s.key, "--valid-for", "1 second")
	time.Sleep(3 * time.Second)
}

// updaters is a folder with the real packages of a version, for this machine. Nothing is signed.
func updaters(t testing.TB, version string) string {
	t.Helper()
	updatersOnce.Lock()
	defer updatersOnce.Unlock()
	dir, err := world()
	check(t, err)
	dir = filepath.Join(dir, "updaters-"+version)
	if _, err := os.Stat(dir); err != nil {
		_, err := packaging.Build(t.Context(), packaging.Options{
			Module: module, Out: dir + ".new", Version: version, Date: time.Unix(1700000000, 0),
			Arch: []string{runtime.GOARCH}, Formats: []string{"deb", "rpm"}, Programs: []string{"teleport-update"},
		})
		check(t, err)
		check(t, os.Rename(dir+".new", dir))
	}
	return dir
}

var updatersOnce sync.Mutex

// runs asserts which updater is installed.
func (s *site) runs(version string) {
	s.t.Helper()
	if got := s.Must("teleport-update", "version"); !strings.HasPrefix(got, "teleport-update "+version+" ") {
		s.t.Errorf("installed is %q; want %s", got, version)
	}
}

// says asserts that a command ends with a code and what it says.
func (s *site) says(r host.Result, code int, want ...string) {
	s.t.Helper()
	said := r.Stdout + r.Stderr
	if r.Code != code {
		s.t.Errorf("exit code %d; want %d:\n%s", r.Code, code, said)
	}
	for _, w := range want {
		found := false
		for alternative := range strings.SplitSeq(w, "|") {
			found = found || strings.Contains(said, alternative)
		}
		if !found {
			s.t.Errorf("%q is not said:\n%s", w, said)
		}
	}
}
