//go:build !hosts

package repository

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// changing are the programs of a publication that write. Each of their runs is a place to be cut off.
var changing = []string{"apt-ftparchive", "cp", "createrepo_c", "gpg", "gzip", "ln", "mkdir", "mktemp", "mv", "rm", "rpmsign", "sync"}

// killed kills the publication, and all that it runs, before its n-th run of one of these programs.
const killed = `#!/bin/sh
echo >>"$CUT_RUNS"
[ "$(wc -l <"$CUT_RUNS")" != "$CUT_AT" ] || kill -KILL 0
exec /usr/bin/${0##*/} "$@"
`

// Wherever a publication is cut off, clients see the repository of before; the same command again publishes.
// FAULTS=all cuts it off at each place.
func TestAPublicationCutOffAnywhereIsWhole(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("0.9.0")
	s.addsVersion("1.0.0")
	s.publish()
	before := t.TempDir()
	check(t, os.CopyFS(before, os.DirFS(s.dir)))
	bin := t.TempDir()
	for _, name := range changing {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte(killed), 0o755))
	}
	s.removes("0.9.0")
	runs := filepath.Join(t.TempDir(), "runs")
	s.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CUT_RUNS=" + runs}
	step := 4
	if os.Getenv("FAULTS") == "all" {
		step = 1
	}
	places := 1
	for ; ; places += step {
		s.addsVersion("1.1.0") // not signed
		check(t, os.RemoveAll(runs))
		cut := s.cutAt(places)
		view, err := s.view()
		if err != nil {
			t.Fatalf("cut off at %d: %v", places, err)
		}
		if err := reads(before, s.dir); err != nil {
			t.Fatalf("cut off at %d, clients that have read the indexes of before: %v", places, err)
		}
		if reflect.DeepEqual(view, offering("1.0.0", "1.1.0")) {
			break
		}
		if !cut || !reflect.DeepEqual(view, offering("0.9.0", "1.0.0")) {
			t.Fatalf("cut off at %d: %v", places, view)
		}
	}
	t.Logf("cut off at %d places", places/step)
	if places < 60 {
		t.Error("these are too few to have seen all of it")
	}
	s.env = nil
	s.publish()
	s.offers("1.0.0", "1.1.0")
	left, err := filepath.Glob(s.dir + "*")
	check(t, err)
	if len(left) != 4 { // link, lock, this tree and the one before
		t.Errorf("left are %v", left)
	}
}

// cutAt publishes, and reports whether it was killed.
func (s *shelf) cutAt(n int) bool {
	s.t.Helper()
	cmd := s.key.Publish("--packages", s.packages, "--to", s.dir)
	cmd.Env = append(append(cmd.Env, s.env...), "CUT_AT="+strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	exit, _ := err.(*exec.ExitError)
	if exit != nil && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	if err != nil {
		s.t.Fatalf("publish.sh, to be cut off at %d: %v\n%s", n, err, out)
	}
	return false
}

// A program that fails ends the publication.
func TestAProgramThatFailsPublishesNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.addsVersion("1.0.0")
	s.publish()
	for _, name := range changing {
		bin := t.TempDir()
		check(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho no room >&2\nexit 1\n"), 0o755))
		s.removesAll()
		s.addsVersion("1.0.0")
		s.addsVersion("1.1.0")
		s.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		s.refuses("no room")
		s.env = nil
		s.offers("1.0.0")
	}
}

func (s *shelf) removesAll() {
	s.t.Helper()
	check(s.t, os.RemoveAll(s.packages))
	check(s.t, os.Mkdir(s.packages, 0o755))
}

// reads reports what a client misses that has read the indexes of before and now
// asks for what they name, in the folder as it is.
func reads(before, now string) error {
	return filepath.WalkDir(before, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, before)
		if !strings.Contains(name, "/by-hash/") && !strings.HasSuffix(name, ".xml.gz") && !strings.HasSuffix(name, ".deb") && !strings.HasSuffix(name, ".rpm") {
			return nil
		}
		was, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		is, err := os.ReadFile(now + name)
		if err == nil && string(is) != string(was) {
			err = fmt.Errorf("%s is another one", name)
		}
		return err
	})
}
