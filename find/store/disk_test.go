package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// disk records what SQLite does to the files of a folder, in the order in which it is
// done, and makes the folder that a kill or a power cut would have left.
//
// A kill leaves all that was done. A power cut leaves what was synced, and any part of the
// rest: of contents each sector by itself, of names the first ones. To sync a file keeps its
// name as well, as ext4, xfs and btrfs do.
type disk struct {
	vfs.VFSFilename
	mu    sync.Mutex
	done  []deed
	files map[string]int // by path: the number of the file that has it
	made  int
}

// deed is a change of a file or of its name.
type deed struct {
	what   string // "create", "write", "truncate", "sync", "remove", "sync names"
	path   string
	number int // of the file
	offset int64
	data   []byte
}

func (d deed) String() string {
	return fmt.Sprintf("%s %s, %d bytes at %d", d.what, filepath.Base(d.path), len(d.data), d.offset)
}

// newDisk registers a disk under the test's name.
func newDisk(t *testing.T) *disk {
	d := &disk{VFSFilename: vfs.Find("os").(vfs.VFSFilename), files: make(map[string]int)}
	vfs.Register(t.Name(), d)
	t.Cleanup(func() { vfs.Unregister(t.Name()) })
	return d
}

func (d *disk) add(w deed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.data = slices.Clone(w.data)
	if w.what == "create" {
		if _, ok := d.files[w.path]; ok {
			return
		}
		d.made++
		d.files[w.path] = d.made
		w.number = d.made
	}
	if w.what == "remove" {
		delete(d.files, w.path)
	}
	d.done = append(d.done, w)
}

// now is how much has been done.
func (d *disk) now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.done)
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err != nil || name == nil {
		return f, flags, err
	}
	d.add(deed{what: "create", path: name.String()})
	return &recorded{f, d, name.String(), d.files[name.String()]}, flags, nil
}

func (d *disk) Delete(path string, syncDir bool) error {
	err := d.VFSFilename.Delete(path, syncDir)
	if err == nil {
		d.add(deed{what: "remove", path: path})
		if syncDir {
			d.add(deed{what: "sync names"})
		}
	}
	return err
}

// recorded is a file of a disk.
type recorded struct {
	vfs.File
	disk   *disk
	path   string
	number int
}

func (f *recorded) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f *recorded) HasMoved() (bool, error) { return f.File.(vfs.FileHasMoved).HasMoved() }

func (f *recorded) add(what string, offset int64, data []byte) {
	f.disk.add(deed{what, f.path, f.number, offset, data})
}

func (f *recorded) WriteAt(p []byte, offset int64) (int, error) {
	f.add("write", offset, p)
	return f.File.WriteAt(p, offset)
}

func (f *recorded) Truncate(size int64) error {
	f.add("truncate", size, nil)
	return f.File.Truncate(size)
}

// What was written before a sync has begun is kept once it has ended.
func (f *recorded) Sync(flags vfs.SyncFlag) error {
	err := f.File.Sync(flags)
	f.add("sync", 0, nil)
	return err
}

// loss is what becomes of what was not synced.
type loss int

const (
	nothing loss = iota // a kill
	allOfIt
	anyPart
)

const sector = 512

// after makes the folder that is there when the machine or the program ended after n deeds.
func (d *disk) after(n int, lost loss, random *rand.Rand, folder string) error {
	names, synced := 0, make(map[int]int) // up to which deed names are kept, and of each file what
	created := make(map[int]int)
	for i, w := range d.done[:n] {
		switch w.what {
		case "create":
			created[w.number] = i + 1
		case "sync":
			synced[w.number] = i
			names = max(names, created[w.number])
		case "sync names":
			names = i
		}
	}
	switch lost {
	case nothing:
		names = n
	case anyPart:
		names += random.IntN(n - names + 1)
	}
	stays := func() bool { return lost == nothing || lost == anyPart && random.IntN(2) == 0 }
	files, contents := make(map[string]int), make(map[int][]byte)
	for i, w := range d.done[:n] {
		kept := i < synced[w.number]
		switch w.what {
		case "create":
			if i < names {
				files[w.path] = w.number
			}
		case "remove":
			if i < names {
				delete(files, w.path)
			}
		case "truncate":
			if kept || stays() {
				contents[w.number] = resized(contents[w.number], int(w.offset))
			}
		case "write":
			for from := 0; from < len(w.data); {
				at := int(w.offset) + from
				end := min(len(w.data), from+sector-at%sector)
				if kept || stays() {
					c := contents[w.number]
					c = resized(c, max(len(c), at+end-from))
					copy(c[at:], w.data[from:end])
					contents[w.number] = c
				}
				from = end
			}
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for path, number := range files {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(path)), contents[number], 0o600); err != nil {
			return err
		}
	}
	return nil
}

func resized(c []byte, size int) []byte {
	if size <= len(c) {
		return c[:size:size]
	}
	return append(c, make([]byte, size-len(c))...)
}
