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
)

const (
	// writeback is how many bytes are written before the kernel is told to
	// start putting them on the disk, so that the last sync finds little to do.
	writeback = 8 << 20
	// openFiles bounds the files that wait for their sync.
	openFiles = 4
	// writeBuffers of writeSize bytes are enough to go on decompressing while
	// the disk is busy with something else for some milliseconds.
	writeBuffers = 12
	writeSize    = 256 << 10
)

// localError marks what went wrong on this host, where another mirror would
// not help.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// treeDirs are the folders of a release, parents first.
var treeDirs = [...]string{".", binName, path.Dir(path.Dir(unitName)), path.Dir(unitName)}

// treeWriter is the sink that builds a tree in a staging folder. It is two
// stages of its own: one goroutine writes and hashes what the archive brings,
// another one syncs whole files.
type treeWriter struct {
	dir    string
	root   *os.Root
	free   chan []byte
	steps  chan step
	queue  chan *os.File
	synced chan error

	// Of the writing goroutine until broken or steps is closed.
	sums   []sum
	err    error
	broken chan struct{} // closed when err is there
}

// step is some bytes of a file, in a buffer that goes back to free.
type step struct {
	file *treeFile
	data []byte
	last bool
}

func newTreeWriter(dir string) (*treeWriter, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &localError{err}
	}
	w := &treeWriter{
		dir:    dir,
		root:   root,
		free:   make(chan []byte, writeBuffers),
		steps:  make(chan step, writeBuffers),
		queue:  make(chan *os.File, openFiles),
		synced: make(chan error, 1),
		broken: make(chan struct{}),
	}
	for _, name := range treeDirs {
		if err := w.folder(name); err != nil {
			root.Close()
			return nil, w.local("unpack", err)
		}
	}
	for range writeBuffers {
		w.free <- make([]byte, writeSize)
	}
	go w.write()
	go w.sync()
	return w, nil
}

// file takes one file. What goes wrong with writing it may show later, with
// another file or in finish.
func (w *treeWriter) file(name string, mode fs.FileMode, size int64, content io.Reader) error {
	f := &treeFile{w: w, name: name, mode: mode, size: size, hash: sha256.New()}
	for {
		var buf []byte
		select {
		case buf = <-w.free:
		case <-w.broken:
			return errStopped
		}
		n, err := readFull(content, buf[:cap(buf)])
		if err != nil && err != io.EOF {
			return err
		}
		w.steps <- step{f, buf[:n], err == io.EOF} // never blocks: there is room for all buffers
		if err == io.EOF {
			return nil
		}
	}
}

// write does the steps. After the first error it only gives the buffers back.
func (w *treeWriter) write() {
	var open *treeFile
	for s := range w.steps {
		if w.err == nil {
			open = s.file
			if err := s.file.put(s.data); err != nil {
				w.fail("unpack "+s.file.name, err)
			} else if s.last {
				if err := s.file.end(); err != nil {
					w.fail("unpack "+s.file.name, err)
				} else {
					open = nil
				}
			}
		}
		w.free <- s.data
	}
	if open != nil && open.f != nil {
		open.f.Close()
	}
	close(w.queue)
}

func (w *treeWriter) fail(doing string, err error) {
	w.err = w.local(doing, err)
	close(w.broken)
}

// sync puts whole files on stable storage. A failed sync is never repeated: the
// pages are gone.
func (w *treeWriter) sync() {
	var errs []error
	for f := range w.queue {
		errs = append(errs, f.Sync(), f.Close())
	}
	w.synced <- errors.Join(errs...)
}

// finish waits for all files to be on stable storage and puts the folders
// there too. It must be called exactly once, after a failure also.
func (w *treeWriter) finish() error {
	close(w.steps)
	err := <-w.synced
	if w.err != nil {
		w.root.Close()
		return w.err
	}
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

// normalise gives a file or folder its mode, whatever the umask, and its
// owner, whatever a setgid folder says.
func normalise(f *os.File, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		if err := f.Chown(0, 0); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
}

// local makes an error one of this host; a full disk becomes a NoSpaceError.
func (w *treeWriter) local(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &localError{fmt.Errorf("%s: %w", doing, asNoSpace(err, filepath.Dir(w.dir)))}
}

type treeFile struct {
	w       *treeWriter
	f       *os.File
	name    string
	mode    fs.FileMode
	size    int64
	written int64
	started int64 // bytes that the kernel was told to put on the disk
	hash    hash.Hash
}

func (f *treeFile) open() (err error) {
	f.f, err = f.w.root.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil || f.size == 0 {
		return err
	}
	// The disk is found too small before anything is written, and the file
	// comes out in one piece. Not every file system can do this.
	err = unix.Fallocate(int(f.f.Fd()), 0, 0, f.size)
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return nil
	}
	err = asNoSpace(err, filepath.Dir(f.w.dir))
	if e, ok := errors.AsType[*NoSpaceError](err); ok && !e.Inodes {
		e.Need = f.size
	}
	return err
}

func (f *treeFile) put(p []byte) error {
	if f.f == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	// Each takes about as long as the other; one after the other they would
	// be slower than zstd.
	hashed := make(chan struct{})
	go func() {
		f.hash.Write(p)
		close(hashed)
	}()
	n, err := f.f.Write(p)
	<-hashed
	f.written += int64(n)
	if err != nil {
		return err
	}
	if f.written-f.started >= writeback {
		// Only advice: where it is not supported, the sync at the end does all.
		_ = unix.SyncFileRange(int(f.f.Fd()), f.started, f.written-f.started, unix.SYNC_FILE_RANGE_WRITE)
		f.started = f.written
	}
	return nil
}

// end gives a whole file to be synced.
func (f *treeFile) end() error {
	if err := normalise(f.f, f.mode); err != nil {
		return err
	}
	f.w.sums = append(f.w.sums, sum{name: f.name, digest: hex.EncodeToString(f.hash.Sum(nil))})
	f.w.queue <- f.f
	return nil
}

// seal writes what makes the tree a complete release; sha256 comes last.
func (w *treeWriter) seal(r Release, digest string) error {
	edition := []byte(string(r.Edition) + "\n")
	sums := append(w.sums, sumOf(editionName, edition))
	for _, f := range []struct {
		name string
		data []byte
	}{
		{manifestName, formatManifest(sums)},
		{editionName, edition},
		{digestName, []byte(digest + "\n")},
	} {
		if err := durable.WriteFile(path.Join(w.dir, f.name), f.data, 0o644); err != nil {
			return w.local("complete the new version", err)
		}
	}
	return nil
}
