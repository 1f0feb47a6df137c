package store

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// smallDisk has SQLite find the disk full once the files of its folder have more than room bytes.
type smallDisk struct {
	vfs.VFSFilename
	room atomic.Int64
}

func (d *smallDisk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err != nil || name == nil {
		return f, flags, err
	}
	return &smallFile{f, d, filepath.Dir(name.String())}, flags, nil
}

type smallFile struct {
	vfs.File
	disk   *smallDisk
	folder string
}

func (f *smallFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}
func (f *smallFile) HasMoved() (bool, error) { return f.File.(vfs.FileHasMoved).HasMoved() }

func (f *smallFile) WriteAt(p []byte, offset int64) (int, error) {
	used := int64(0)
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used += info.Size()
		}
	}
	size, err := f.Size()
	if grows := max(offset+int64(len(p))-size, 0); err != nil || used+grows > f.disk.room.Load() {
		return 0, sqlite3.FULL
	}
	return f.File.WriteAt(p, offset)
}

// The first change that finds the disk full is made all the same, with the room of the reserve. Those after it are refused by
// the name of the trouble, until there is room; then there is a reserve again.
func TestAFullDisk(t *testing.T) {
	d := &smallDisk{VFSFilename: vfs.Find("os").(vfs.VFSFilename)}
	d.room.Store(1 << 40)
	vfs.Register(t.Name(), d)
	t.Cleanup(func() { vfs.Unregister(t.Name()) })
	path := filepath.Join(t.TempDir(), "store", "store.db")
	s, err := openSQLite(t.Context(), path, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hasReserve := func() bool {
		info, err := os.Stat(path + "-reserve")
		return err == nil && info.Size() == reserveSize
	}
	if !hasReserve() {
		t.Fatal("there is no reserve")
	}
	d.room.Store(reserveSize + 100<<10)
	big := make([]byte, 200<<10)
	if _, err := s.Put(t.Context(), "first", big, None); err != nil || hasReserve() {
		t.Fatalf("the first change that finds the disk full: %v; the reserve is there: %t", err, hasReserve())
	}
	d.room.Store(0)
	_, err = s.Put(t.Context(), "second", big, None)
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the second one: %v", err)
	}
	if _, err := s.Get(t.Context(), "first"); err != nil {
		t.Errorf("what was written is lost: %v", err)
	}
	d.room.Store(1 << 40)
	if _, err := s.Put(t.Context(), "second", big, None); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if _, err := s.Purge(t.Context(), s.file.ModTime()); err != nil || !hasReserve() {
		t.Errorf("%v; the reserve is there again: %t", err, hasReserve())
	}
}
