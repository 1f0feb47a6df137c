package server

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

// maxWatched is more than thousands of groups or channels need.
const maxWatched = 1 << 20

// watched is a file that people edit while the server runs. It may have no path, and is then never
// read.
type watched struct {
	path string

	mu   sync.Mutex
	last fileID // of the file at the last attempt to read it
}

// read returns what the file holds.
func (w *watched) read() ([]byte, error) {
	data, id, err := readFile(w.path)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = id
	return data, err
}

func readFile(path string) ([]byte, fileID, error) {
	before, statErr := os.Stat(path)
	f, info, err := regular.Open(path, 0)
	if _, odd := errors.AsType[*regular.OddError](err); odd && statErr == nil {
		return nil, identify(before), err // it is told of once
	}
	if err != nil {
		return nil, fileID{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxWatched+1))
	if err == nil && len(data) > maxWatched {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxWatched)
	}
	return data, identify(info), err
}

// watch has edits of the file taken up until ctx ends. It looks every so often, and
// takes a file that has not changed since the look before: an editor may be
// half way through writing it. What cannot be taken is taken up once.
func (w *watched) watch(ctx context.Context, every time.Duration, take func()) {
	if w.path == "" {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before fileID
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var now fileID // stays zero for a file that cannot be looked at
		if info, err := os.Stat(w.path); err == nil {
			now = identify(info)
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
