package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/space"
)

const (
	// writeback is how many bytes are written before the kernel has to start putting them on the
	// disk, so that the last sync finds little to do.
	writeback = 8 << 20
	// openFiles bounds the files that wait for their sync.
	openFiles = 4
)

// treeDirs are the folders of a release, parents first.
var treeDirs = [...]string{".", binName, path.Dir(path.Dir(unitName)), path.Dir(unitName)}

// treeWriter is the sink that builds a tree in a staging folder. Files are hashed as they are
// written and synced in the background.
type treeWriter struct {
	dir    string
	root   *os.Root
	ahead  int64 // bytes that may still be reserved before their data comes
	sums   []sum
	queue  chan *os.File
	synced chan error
}

// newTreeWriter returns a writer that reserves at most ahead bytes of the disk before their data
// comes: an archive may name any size.
func newTreeWriter(dir string, ahead int64) (*treeWriter, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &HostError{err}
	}
	w := &treeWriter{dir: dir, root: root, ahead: ahead, queue: make(chan *os.File, openFiles), synced: make(chan error, 1)}
	for _, name := range treeDirs {
		if err := w.folder(name); err != nil {
			root.Close()
			return nil, w.local("unpack", err)
		}
	}
	go func() {
		var errs []error
		for f := range w.queue {
			// A failed sync is never repeated: the pages are gone.
			errs = append(errs, f.Sync(), f.Close())
		}
		w.synced <- errors.Join(errs...)
	}()
	return w, nil
}

// finish waits for all files to be on stable storage and puts the folders there too. It must be
// called exactly once, even after a failure.
func (w *treeWriter) finish() error {
	close(w.queue)
	err := <-w.synced
	for _, name := range treeDirs {
		if err == nil {
			err = w.syncFolder(name)
		}
	}
	return w.local("sync the new version", errors.Join(err, w.root.Close()))
}

func (w *treeWriter) syncFolder(name string) error {
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (w *treeWriter) folder(name string) error {
	if name != "." {
		if err := w.root.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(normalise(f, 0o755), f.Close())
}

func (w *treeWriter) Create(name string, mode fs.FileMode, size int64) (io.WriteCloser, error) {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, w.local("unpack "+name, err)
	}
	out := &treeFile{w: w, f: f, name: name, mode: mode, size: size, hash: sha256.New()}
	if size > 0 && size <= w.ahead {
		w.ahead -= size
		// A disk that is too small shows before anything is written, and the file comes out in one
		// piece. Not every file system can do this.
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			f.Close()
			full := space.Explain(err, filepath.Dir(w.dir))
			if e, ok := errors.AsType[*space.Error](full); ok && !e.Inodes {
				e.Need = size
			}
			return nil, w.local("unpack "+name, full)
		}
	}
	return out, nil
}

// normalise gives a file or folder its mode, regardless of the umask, and its owner, regardless of
// a setgid folder.
func normalise(f *os.File, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		if err := f.Chown(0, 0); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
}

// local turns an error into one of this host; a full disk becomes a *space.Error.
func (w *treeWriter) local(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &HostError{fmt.Errorf("%s: %w", doing, space.Explain(err, filepath.Dir(w.dir)))}
}

type treeFile struct {
	w       *treeWriter
	f       *os.File
	name    string
	mode    fs.FileMode
	size    int64
	written int64
	started int64 // bytes that the kernel had to start putting on the disk
	hash    hash.Hash
}

func (f *treeFile) Write(p []byte) (int, error) {
	// Each takes about as long as the other; one after the other would be slower than zstd.
	hashed := make(chan struct{})
	go func() {
		f.hash.Write(p)
		close(hashed)
	}()
	n, err := f.f.Write(p)
	<-hashed
	f.written += int64(n)
	if err != nil {
		return n, f.w.local("unpack "+f.name, err)
	}
	if f.written-f.started >= writeback {
		// Only advice: without support for it, the sync at the end does all.
		_ = unix.SyncFileRange(int(f.f.Fd()), f.started, f.written-f.started, unix.SYNC_FILE_RANGE_WRITE)
		f.started = f.written
	}
	return n, nil
}

func (f *treeFile) Close() error {
	if f.written != f.size {
		f.f.Close()
		return fmt.Errorf("unpack %s: %d of %d bytes came", f.name, f.written, f.size)
	}
	if err := normalise(f.f, f.mode); err != nil {
		f.f.Close()
		return f.w.local("unpack "+f.name, err)
	}
	f.w.queue <- f.f
	f.w.sums = append(f.w.sums, sum{name: f.name, digest: hex.EncodeToString(f.hash.Sum(nil))})
	return nil
}

// seal writes the files that make the tree a complete one, into the folder of its record; marker,
// which holds from, comes last.
func seal(record string, r Release, sums []sum, marker, from string) error {
	edition := []byte(string(r.Edition) + "\n")
	sums = append(sums, sumOf(editionName, edition))
	for _, f := range []struct {
		name string
		data []byte
	}{
		{manifestName, formatManifest(sums)},
		{editionName, edition},
		{marker, []byte(from + "\n")},
	} {
		if err := durable.WriteFile(path.Join(record, f.name), f.data, 0o644); err != nil {
			return &HostError{fmt.Errorf("complete the new version: %w", space.Explain(err, filepath.Dir(record)))}
		}
	}
	return nil
}
