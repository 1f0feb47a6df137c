package fetch

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/internal/space"
)

func TestSpaceNeeded(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		name                  string
		active, length, extra int64
		want                  int64
	}{
		{"the first release", 0, 100 * mb, 0, 400 * mb},
		{"a release like the active one", 500 * mb, 100 * mb, 0, 600 * mb},
		{"a release much larger than the active one", 100 * mb, 200 * mb, 0, 800 * mb},
		{"with a database to back up", 500 * mb, 100 * mb, 50 * mb, 650 * mb},
		{"of unknown length", 500 * mb, -1, 0, 600 * mb},
		{"of which nothing is known", 0, -1, 7, 7},
	} {
		if got := spaceNeeded(tc.active, tc.length, tc.extra); got != tc.want {
			t.Errorf("%s: %d; want %d", tc.name, got, tc.want)
		}
	}
}

func TestWhatCannotFitIsNotEvenStarted(t *testing.T) {
	f, _ := testFetcher(t, nil)
	req := Request{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, soundTarball("15.1.1"))}, Extra: 1 << 50}
	_, err := f.Fetch(context.Background(), req)
	full, ok := errors.AsType[*space.Error](err)
	if !ok || full.Need < 1<<50 || full.Free <= 0 || full.Path != f.Store.PartialDir() || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v; want a *space.Error with its numbers", err)
	}
	wantNothingLeft(t, f.Store)
}

func TestAFullFileSystemIsSaidSoAndLeftAsItWas(t *testing.T) {
	for name, tc := range map[string]struct {
		options string
		inodes  bool
	}{
		"of bytes":  {"size=2m", false},
		"of inodes": {"size=64m,nr_inodes=7", true},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := testFetcher(t, nil)
			if err := os.MkdirAll(f.Store.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", f.Store.Dir, "tmpfs", 0, tc.options); err != nil {
				t.Skipf("no file system of our own: %v", err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(f.Store.Dir, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			// The estimate is passed by, as one that was too low would be.
			must(t, os.Mkdir(f.Store.PartialDir(), 0o755))
			b, err := f.Store.Begin(oss("15.1.1"))
			must(t, err)
			d := testDownload(t, f, largeRelease("15.1.1", 4<<20))
			_, err = f.stream(d, func(error) {}, b, 1<<30)
			b.Discard()
			full, ok := errors.AsType[*space.Error](err)
			if !ok || full.Inodes != tc.inodes {
				t.Errorf("error %v; want a *space.Error, inodes %v", err, tc.inodes)
			}
			// And the estimate itself.
			_, err = f.Fetch(context.Background(), Request{Release: oss("15.1.1"), Sources: []*Template{onDisk(t, largeRelease("15.1.1", 4<<20))}})
			full, ok = errors.AsType[*space.Error](err)
			if !ok || full.Inodes != tc.inodes {
				t.Errorf("error %v; want a *space.Error, inodes %v", err, tc.inodes)
			}
			if entries, err := os.ReadDir(f.Store.PartialDir()); err == nil && len(entries) > 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// testDownload is a download of a tarball from a file.
func testDownload(t *testing.T, f *Fetcher, tarball []byte) *download {
	t.Helper()
	mirrors, err := f.mirrorsOf(oss("15.1.1"), []*Template{onDisk(t, tarball)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.begin(context.Background(), mirrors, "", &failures{})
	if err != nil {
		t.Fatal(err)
	}
	d.keep = openKeeper(t.TempDir(), d.digest, 0, f.Log)
	t.Cleanup(d.close)
	return d
}
