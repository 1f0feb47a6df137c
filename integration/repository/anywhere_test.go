//go:build !hosts

package repository

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"teleport-update/integration/trace"
)

// Wherever a publication is cut off, clients see the repository of before or the new
// one, and each whole; the same command again ends it. FAULTS=all cuts it off also at
// calls after which nothing that can be seen is another.
func TestAPublicationCutOffAnywhereIsWhole(t *testing.T) {
	t.Parallel()
	p := newPublication(t)
	if reflect.DeepEqual(p.viewBefore, p.viewAt) || len(p.viewAt.Apt) != 4 || len(p.viewAt.Yum["x86_64"]) != 2 {
		t.Fatalf("before %v, then %v", p.viewBefore, p.viewAt)
	}
	calls := p.calls()
	points := make(chan int, len(calls))
	for _, c := range calls {
		if shows(c) || os.Getenv("FAULTS") == "all" {
			points <- c.Index
		}
	}
	close(points)
	cuts := len(points)
	var states sync.Map
	t.Run("cuts", func(t *testing.T) {
		for range 2 * runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				for n := range points {
					dir := filepath.Join(t.TempDir(), "repository")
					at := p.on(t).cutAt(dir, n)
					if _, seen := states.LoadOrStore(visible(t, dir), true); !seen || os.Getenv("FAULTS") == "all" {
						p.on(t).whole(dir, at)
					}
					check(t, os.RemoveAll(dir))
				}
			})
		}
	})
	different := 0
	states.Range(func(any, any) bool { different++; return true })
	t.Logf("%d calls, cut off before %d of them: %d different states", len(calls), cuts, different)
	if len(calls) < 100 || different < 15 {
		t.Errorf("%d calls and %d states are too few to have seen all of it", len(calls), different)
	}
}

// on reports to another test.
func (p *publication) on(t testing.TB) *publication {
	other := *p
	other.t = t
	return &other
}

// whole asserts that clients are served by what a publication that was cut off has
// left, and that it can be ended.
func (p *publication) whole(dir string, at trace.Call) {
	t := p.t
	t.Helper()
	view, err := Look(dir, p.key.keyring)
	if err != nil {
		t.Errorf("cut off before %s: %v", at, err)
		return
	}
	oneOf := func(what string, got, before, after []string) {
		if !slices.Equal(got, before) && !slices.Equal(got, after) {
			t.Errorf("cut off before %s: %s offers %v", at, what, got)
		}
	}
	oneOf("apt", view.Apt, p.viewBefore.Apt, p.viewAt.Apt)
	for arch := range view.Yum {
		oneOf("yum for "+arch, view.Yum[arch], p.viewBefore.Yum[arch], p.viewAt.Yum[arch])
	}
	// Who has read the index of before a moment ago finds what that names.
	if err := reads(p.before, dir); err != nil {
		t.Errorf("cut off before %s: %v", at, err)
	}
	runAt(t, published, append(slices.Clone(p.argv[1:]), dir)...)
	if view := p.look(dir); !reflect.DeepEqual(view, p.viewAt) {
		t.Errorf("cut off before %s, then published: %v; want %v", at, view, p.viewAt)
	}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") && d.Name() != ".lock" {
			t.Errorf("cut off before %s, then published: %s is left", at, path)
		}
		return err
	}))
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
