package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"teleport-update/internal/regular"
)

// MaxWatched is more than thousands of groups or channels need.
const MaxWatched = 1 << 20

// WatchedFile is a file that people edit while the server runs. If it has no path, it is never read.
type WatchedFile struct {
	Path string

	mu   sync.Mutex
	last FileID // of the file at the last read
}

// Read returns the content of the file.
func (w *WatchedFile) Read() ([]byte, error) {
	data, id, err := readFile(w.Path)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = id
	return data, err
}

func readFile(path string) ([]byte, FileID, error) {
	before, statErr := os.Stat(path)
	f, info, err := regular.Open(path, 0)
	if _, unsuitable := errors.AsType[*regular.UnsuitableError](err); unsuitable && statErr == nil {
		return nil, Identify(before), err // so that the error is reported once
	}
	if err != nil {
		return nil, FileID{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxWatched+1))
	if err == nil && len(data) > MaxWatched {
		err = fmt.Errorf("%s is larger than %d bytes", path, MaxWatched)
	}
	return data, Identify(info), err
}

// Watch calls take after edits of the file, until ctx ends. It looks at intervals, and waits until the file has
// not changed since the look before: an editor may be half way through writing it. It calls take once for each
// state of the file, even an invalid one.
func (w *WatchedFile) Watch(ctx context.Context, every time.Duration, take func()) {
	if w.Path == "" {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before FileID
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var now FileID // stays zero if the file cannot be looked at
		if info, err := os.Stat(w.Path); err == nil {
			now = Identify(info)
		}
		w.mu.Lock()
		edited := now == before && now != w.last
		w.mu.Unlock()
		if edited {
			take()
		}
		before = now
	}
}
