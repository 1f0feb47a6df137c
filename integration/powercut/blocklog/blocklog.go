// Package blocklog records what a file system writes to its disk and when it has
// the disk flush its cache, and makes the image that a power cut would have left:
// at any moment, and with any part lost of what was written since the last flush.
//
// The disk is a file in a FUSE file system of this process, behind a loop device.
// It sees what package powercut's cuts cannot: the order of the file system's own
// writes, and a drive that keeps some of them and loses others.
//
// A flush counts from the moment it is asked for: what the drive had accepted
// until then is safe.
package blocklog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"teleport-update/integration/powercut"
)

// name is the only file of the FUSE file system.
const name = "disk"

// Available says whether disks can be recorded here; the error matches
// powercut.ErrUnavailable.
func Available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: no FUSE: %w", powercut.ErrUnavailable, err)
	}
	return f.Close()
}

// Recorder is a disk that logs what is written to it.
type Recorder struct {
	server *fuse.Server
	dir    string
	disk   *disk
}

// Record makes a disk with the content of the image, which itself stays as it is,
// in the folder dir, where a FUSE file system is mounted.
func Record(image, dir string) (*Recorder, error) {
	work := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".recorded")
	if err := powercut.Copy(image, work); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(work, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d := &disk{file: f, size: info.Size()}
	server, err := fs.Mount(dir, &folder{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, // this needs no other program
		FsName:            "blocklog", Name: "blocklog",
		MaxWrite: 1 << 20,
	}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: mount a FUSE file system: %w", powercut.ErrUnavailable, err), f.Close())
	}
	return &Recorder{server: server, dir: dir, disk: d}, nil
}

// Image is the path to mount the disk from.
func (r *Recorder) Image() string { return filepath.Join(r.dir, name) }

// Now returns how much is in the log: a Log's position.
func (r *Recorder) Now() int {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	return len(r.disk.events)
}

// Close takes the disk away, whose file system must have been unmounted, and
// returns the log.
func (r *Recorder) Close() (Log, error) {
	err := r.server.Unmount()
	return r.disk.events, errors.Join(err, r.disk.file.Close(), os.Remove(r.disk.file.Name()))
}

// folder is the root of the FUSE file system.
type folder struct {
	fs.Inode
	disk *disk
}

var _ fs.NodeOnAdder = (*folder)(nil)

func (d *folder) OnAdd(ctx context.Context) {
	d.AddChild(name, d.NewPersistentInode(ctx, d.disk, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

// disk is the file that the loop device sits on.
type disk struct {
	fs.Inode
	size int64

	mu     sync.Mutex
	file   *os.File // what the disk holds now
	events Log
}

var (
	_ fs.NodeOpener    = (*disk)(nil)
	_ fs.NodeGetattrer = (*disk)(nil)
	_ fs.NodeReader    = (*disk)(nil)
	_ fs.NodeWriter    = (*disk)(nil)
	_ fs.NodeFsyncer   = (*disk)(nil)
	_ fs.NodeFlusher   = (*disk)(nil)
	_ fs.NodeSetattrer = (*disk)(nil)
)

func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = syscall.S_IFREG|0o600, uint64(d.size)
	return 0
}

// Setattr takes times, which the kernel sets after writes, and nothing else.
func (d *disk) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok && int64(size) != d.size {
		return syscall.EPERM
	}
	return d.Getattr(ctx, f, out)
}

func (d *disk) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file.ReadAt(dest, off)
	if n == 0 && err != nil {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (d *disk) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.file.WriteAt(data, off); err != nil {
		return 0, syscall.EIO
	}
	d.events = append(d.events, Event{Offset: off, Data: append([]byte(nil), data...)})
	return uint32(len(data)), 0
}

func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, Event{Flush: true})
	return 0
}

// Flush is what FUSE calls a close.
func (d *disk) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }
