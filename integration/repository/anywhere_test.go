//go:build !hosts

package repository

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
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
