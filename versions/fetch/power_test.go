package fetch

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"teleport-update/integration/powercut"
)

// noPowerCuts is why the test that cuts power is skipped.
var noPowerCuts error

func TestMain(m *testing.M) {
	noPowerCuts = powercut.OwnMounts()
	os.Exit(m.Run())
}

// cutAt cuts the power once so many bytes of a download are here.
type cutAt struct {
	Progress
	bytes int64
	disk  *powercut.Disk
}

func (c *cutAt) Update(done, _ int64) {
	if done >= c.bytes {
		_ = c.disk.Cut() // an error: it is cut already
	}
}

func TestAPowerCutLeavesAWholeVersionOrNone(t *testing.T) {
	for name, programs := range map[string]string{"in one place": "", "in two places": "programs"} {
		t.Run(name, func(t *testing.T) {
			d := powercut.New(t, noPowerCuts)
			tarball := largeRelease("15.1.1", 4<<20)
			f, _ := testFetcher(t, nil)
			f.Store.Dir = filepath.Join(d.Dir, "versions")
			if programs != "" {
				f.Store.Programs = filepath.Join(d.Dir, programs)
			}
			req := Request{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, tarball)}}
			progress := f.Progress
			for _, at := range []int64{1, 1 << 20, 3 << 20, int64(len(tarball))} {
				f.Progress = &cutAt{progress, at, d}
				if _, err := f.Fetch(context.Background(), req); err == nil {
					t.Errorf("cut at %d, the fetch succeeded", at)
				}
				must(t, d.Restore())
				if tree, ok, err := f.Store.Lookup(req.Release); err != nil || ok {
					t.Errorf("cut at %d: there is a version: %+v, %v", at, tree, err)
				}
			}
			f.Progress = progress
			tree, err := f.Fetch(context.Background(), req)
			must(t, err)
			must(t, d.Cut())
			must(t, d.Restore())
			found, ok, err := f.Store.Lookup(req.Release)
			if err != nil || !ok || found != tree {
				t.Fatalf("after the fetch and a cut: %+v, %v, %v", found, ok, err)
			}
			wantWhole(t, found, tarball)
			if programs != "" {
				if names, err := filepath.Glob(filepath.Join(d.Dir, programs, "*")); err != nil || len(names) != 1 || filepath.Base(names[0]) != "15.1.1" {
					t.Errorf("in the place of programs are %q, %v", names, err)
				}
			}
		})
	}
}
