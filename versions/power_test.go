package versions

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disk is a file system of its own whose power can be cut.
type disk struct {
	t     *testing.T
	image string
	dir   string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	must(t, os.WriteFile(d.image, nil, 0o600))
	must(t, os.Truncate(d.image, 64<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", d.image).CombinedOutput(); err != nil {
		t.Skipf("no file system of our own: %v %s", err, out)
	}
	if out, err := d.mount(); err != nil {
		t.Skipf("no file system of our own: %v %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

func (d *disk) mount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// cut stops the file system where it is: what is not on the disk is lost.
func (d *disk) cut() {
	f, err := os.Open(d.dir)
	if err != nil {
		return // cut already
	}
	defer f.Close()
	const shutdown, noLogFlush = 0x8004587d, 2
	how := uint32(noLogFlush)
	unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how)))
}

// back is the disk after the power came back.
func (d *disk) back() {
	d.t.Helper()
	must(d.t, unix.Unmount(d.dir, 0))
	if out, err := d.mount(); err != nil {
		d.t.Fatalf("%v %s", err, out)
	}
}

// cutAt cuts the power once so many bytes of a download are here.
type cutAt struct {
	Progress
	bytes int64
	disk  *disk
}

func (c *cutAt) Update(done, _ int64) {
	if done >= c.bytes {
		c.disk.cut()
	}
}

// inOwnNamespace runs the test again in a mount namespace of its own and
// returns true in there. A container that starts meanwhile copies the mounts it
// finds, and a file system is not gone while it has a copy.
func inOwnNamespace(t *testing.T) bool {
	t.Helper()
	const marker = "VERSIONS_TEST_OWN_NAMESPACE"
	if os.Getenv(marker) != "" {
		return true
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", self, "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), marker+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && !strings.Contains(string(out), "=== RUN"):
		t.Skipf("no mounts of our own: %v %s", err, out)
	case err != nil:
		t.Errorf("%s", out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	return false
}

func TestAPowerCutLeavesAWholeVersionOrNone(t *testing.T) {
	if !inOwnNamespace(t) {
		return
	}
	tarball := largeRelease("15.1.1", 4<<20)
	source := onDisk(t, tarball)
	d := newDisk(t)
	f, _ := testFetcher(t, nil)
	f.Store.Dir = filepath.Join(d.dir, "versions")
	req := FetchRequest{Release: oss("15.1.1"), Sources: []*Template{source}}
	progress := f.Progress
	for _, at := range []int64{1, 1 << 20, 3 << 20, int64(len(tarball))} {
		f.Progress = &cutAt{progress, at, d}
		if _, err := f.Fetch(context.Background(), req); err == nil {
			t.Errorf("cut at %d, the fetch succeeded", at)
		}
		d.back()
		if tree, ok, err := f.Store.Lookup(req.Release); err != nil || ok {
			t.Errorf("cut at %d: there is a version: %+v, %v", at, tree, err)
		}
	}
	f.Progress = progress
	tree, err := f.Fetch(context.Background(), req)
	must(t, err)
	d.cut()
	d.back()
	found, ok, err := f.Store.Lookup(req.Release)
	if err != nil || !ok || found != tree {
		t.Fatalf("after the fetch and a cut: %+v, %v, %v", found, ok, err)
	}
	wantWhole(t, found, tarball)
}
