//go:build hosts

package powercut_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"teleport-update/integration/host"
	"teleport-update/integration/powercut"
)

// mounted is an empty file system.
func mounted(t *testing.T, kind powercut.Kind) *powercut.Disk {
	t.Helper()
	err := unavailable
	if err == nil {
		err = powercut.Available(kind)
	}
	if missing, ok := errors.AsType[*powercut.MissingError](err); ok {
		err = host.Install(t.Context(), missing.Packages...)
	}
	powercut.Require(t, err)
	image := filepath.Join(scratch, string(kind)+".img")
	must(t, powercut.Format(image, kind))
	d, err := powercut.Mount(image, kind, filepath.Join(scratch, string(kind)))
	must(t, err)
	t.Cleanup(func() { must(t, d.Unmount()) })
	return d
}

func TestOnlyWhatWasSyncedOutlivesACut(t *testing.T) {
	for _, kind := range []powercut.Kind{powercut.Ext4, powercut.XFS} {
		t.Run(string(kind), func(t *testing.T) {
			d := mounted(t, kind)
			at := func(name string) string { return filepath.Join(d.Dir, name) }
			must(t, os.WriteFile(at("before"), []byte("old"), 0o644))
			must(t, os.Symlink("old", at("link")))
			must(t, d.Sync())

			f, err := os.Create(at("synced"))
			must(t, err)
			_, err = f.WriteString("data")
			must(t, err)
			must(t, f.Sync())
			must(t, f.Close())
			must(t, os.WriteFile(at("new"), []byte("data"), 0o644))
			must(t, os.WriteFile(at("tmp"), []byte("new"), 0o644))
			must(t, os.Rename(at("tmp"), at("before")))
			must(t, os.Symlink("new", at("tmp")))
			must(t, os.Rename(at("tmp"), at("link")))
			must(t, d.Cut())
			if err := os.WriteFile(at("late"), nil, 0o644); err == nil {
				t.Error("a file could be written after the cut")
			}
			must(t, d.Restore())

			for name, want := range map[string]string{"before": "old", "synced": "data"} {
				if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
					t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
				}
			}
			if got, _ := os.Readlink(at("link")); got != "old" {
				t.Errorf("the link leads to %q; want old", got)
			}
			if _, err := os.Lstat(at("new")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was never synced is there: %v", err)
			}
		})
	}
}

func TestACopyOfAnImageIsTheSameFileSystem(t *testing.T) {
	d := mounted(t, powercut.Ext4)
	content := bytes.Repeat([]byte("content"), 100_000)
	must(t, os.WriteFile(filepath.Join(d.Dir, "file"), content, 0o644))
	must(t, d.Unmount())
	copied := filepath.Join(scratch, "copy.img")
	must(t, powercut.Copy(d.Image, copied))
	if image, copied := used(t, d.Image), used(t, copied); copied > image {
		t.Errorf("the copy takes %d blocks, the image %d", copied, image)
	}
	must(t, d.Mount())
	c, err := powercut.Mount(copied, powercut.Ext4, filepath.Join(scratch, "copy"))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(c.Dir, "file"))
	must(t, c.Unmount())
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the copy's file holds %d bytes, %v; want %d", len(got), err, len(content))
	}
}

func used(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Blocks
}
