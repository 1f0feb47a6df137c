// Package host makes disposable hosts with a real systemd for tests and for the
// demo.
//
// A host is a container of systemd-nspawn: a Debian root that mmdebstrap made
// once, an overlay of its own above it, its own network with nothing but a
// loopback, its own control group. It boots in a quarter of a second, can be
// rebooted, powered off and cut off, and many may run at once. What it writes
// survives all of that until Close.
//
//	h, err := host.New(ctx, host.Options{})
//	defer h.Close()
//	err = h.Boot(ctx)
//	r, err := h.Run(ctx, "systemctl", "is-system-running")
//
// Tests use ForTest, which also skips or fails where hosts cannot run.
//
// Nothing stays behind: Close removes mounts, processes and folders, the kernel
// kills a host's processes with the process that made it, and the next New
// removes what a killed process left. A sync inside a host does not reach the
// disk (the overlay is mounted "volatile"): what a power cut does to files is
// shown by hosts with a disk of their own alone.
package host

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what a host is like. The zero value is a Debian 12 with systemd.
type Options struct {
	// Suite is the Debian release; default DefaultSuite.
	Suite string
	// Packages are installed on top of what every host has. Each set of them is a
	// root of its own, made once.
	Packages []string
	// Plain is a container that runs no systemd: PID 1 does nothing.
	Plain bool
	// Disk puts the root on a file system of its own, ext4 in a file, so that
	// CutPower loses what was not synced. While such a host is off, its files
	// cannot be reached.
	Disk bool
}

// Host is one host. It is made by New, off; Boot starts it.
type Host struct {
	// Name is its machine name and hostname, unlike any other host's.
	Name string
	// Dir is its folder on the outside; Dir/root is its root file system.
	Dir string

	plain   bool
	disk    bool
	network *os.File
	cgroup  cgroup
	release func() // gives up Dir: other processes may clean it
	cancel  context.CancelFunc
	ctx     context.Context // ends with Close

	mu      sync.Mutex
	running *machine // nil while the host is off
	closed  bool
}

// ErrOff says that the host is not running.
var ErrOff = errors.New("the host is off")

// New makes a host without booting it. It needs root and the tools that
// EnsureTools installs.
func New(ctx context.Context, o Options) (_ *Host, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if o.Suite == "" {
		o.Suite = DefaultSuite
	}
	base, err := Root(ctx, o.Suite, o.Packages...)
	if err != nil {
		return nil, err
	}
	hosts, err := hostsDir()
	if err != nil {
		return nil, err
	}
	if err := Sweep(); err != nil {
		return nil, err
	}

	h := &Host{Name: "tu-" + strings.ToLower(rand.Text()[:10]), plain: o.Plain, disk: o.Disk}
	h.Dir = filepath.Join(hosts, h.Name)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if h.release, err = claim(hosts, h.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make host: %w", err), h.Close())
		}
	}()
	if h.cgroup, err = makeCgroup("teleport-update-" + h.Name); err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(h.Dir, "cgroups"), h.cgroup.dirs()); err != nil {
		return nil, err
	}
	if h.network, err = newNetwork(); err != nil {
		return nil, err
	}
	// A fixed id: without one, the first boot applies unit presets.
	id := make([]byte, 16)
	rand.Read(id)
	if h.disk {
		return h, makeDisk(ctx, base, h.Dir, fmt.Appendf(nil, "%x\n", id))
	}
	if err := mountRoot(ctx, base, h.Dir); err != nil {
		return nil, err
	}
	return h, h.WriteFile("/etc/machine-id", fmt.Appendf(nil, "%x\n", id), 0o444)
}

// Close stops the host and all that was started in it or in its network, and
// removes it. It may be called more than once.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.cancel()
	err := remove(h.Dir)
	if h.running != nil {
		<-h.running.exited
	}
	if h.network != nil {
		h.network.Close()
	}
	h.release()
	return err
}

// mountRoot puts the host's own layer above the base at dir/root, or copies the
// base where the file system cannot do that.
func mountRoot(ctx context.Context, base, dir string) error {
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", base, upper, work)
	err := unix.Mount("overlay", root, "overlay", 0, options+",volatile")
	if err == unix.EINVAL {
		err = unix.Mount("overlay", root, "overlay", 0, options)
	}
	if err == nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", base+"/.", root).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the root: %w\n%s", err, out)
	}
	return nil
}

// remove takes away what New and Boot made, given the host's folder alone.
func remove(dir string) error {
	var dirs []string
	if err := readJSON(filepath.Join(dir, "cgroups"), &dirs); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range dirs {
		if err := (cgroup{unified: d}).destroy(); err != nil {
			return err
		}
	}
	root := filepath.Join(dir, "root")
	for deadline := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(root, unix.UMOUNT_NOFOLLOW)
		if err == unix.EINVAL || err == unix.ENOENT { // not, or no longer, mounted
			break
		}
		if err != nil && time.Now().After(deadline) {
			return fmt.Errorf("unmount %s: %w", root, err)
		}
	}
	// nspawn leaves it where /run is on a disk.
	os.Remove(filepath.Join("/run/systemd/nspawn/propagate", filepath.Base(dir)))
	return os.RemoveAll(dir)
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func readJSON(path string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}
