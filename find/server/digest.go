package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// fileID tells whether a file is still the one it was.
type fileID struct {
	device, inode  uint64
	size           int64
	seconds, nanos int64 // of its last change
}

func identify(info os.FileInfo) fileID {
	stat := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(stat.Dev), stat.Ino, stat.Size, int64(stat.Mtim.Sec), int64(stat.Mtim.Nsec)}
}

// etag is strong: equal ones mean equal bytes, as far as a file system tells.
func (id fileID) etag() string {
	return fmt.Sprintf(`"%x-%x-%x.%x"`, id.inode, id.size, id.seconds, id.nanos)
}

var errChanging = errors.New("the file changed while it was read")

// digests computes the sha256 of files and remembers it as long as the file
// stays the same. However many ask at once, a file is read once, and one file
// at a time: the answers to hosts come before checksums.
type digests struct {
	mu     sync.Mutex
	byName map[string]*digest
	turn   sync.Mutex
}

type digest struct {
	id   fileID
	done chan struct{} // closed once sum or err is there
	sum  string
	err  error
}

// get closes f.
func (d *digests) get(ctx context.Context, name string, f *os.File, info os.FileInfo) (string, error) {
	id := identify(info)
	d.mu.Lock()
	found := d.byName[name]
	if found == nil || found.id != id {
		found = &digest{id: id, done: make(chan struct{})}
		if d.byName == nil {
			d.byName = make(map[string]*digest)
		}
		d.byName[name] = found
		// On its own, so that the others who wait do not lose it when the
		// first who asked goes away.
		go d.compute(name, found, f)
	} else {
		f.Close()
	}
	d.mu.Unlock()
	select {
	case <-found.done:
		return found.sum, found.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (d *digests) compute(name string, to *digest, f *os.File) {
	defer f.Close()
	d.turn.Lock()
	to.sum, to.err = sum(f, to.id)
	d.turn.Unlock()
	if to.err != nil {
		d.mu.Lock()
		if d.byName[name] == to {
			delete(d.byName, name) // the next who asks tries again
		}
		d.mu.Unlock()
	}
	close(to.done)
}

func sum(f *os.File, id fileID) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if identify(info) != id {
		return "", errChanging
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
