package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"teleport-update/internal/durable"
)

// A person's command waits this long for another one to finish; the timer's
// does not wait, its next run is near.
const lockPatience = 60 * time.Second

// BusyError says that another updater holds a lock. Nothing was changed.
type BusyError struct {
	Lock   string // path
	Holder string // who, as far as it said
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("another updater is at work (%s); nothing was changed: try again when it is done", e.Holder)
}

// lock takes the lock at path and returns its release. The kernel drops the
// lock when the process ends, however it ends; the file stays until the updater
// is uninstalled.
func lock(ctx context.Context, path string, patience time.Duration) (unlock func(), err error) {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ok, err := l.TryLock()
	if err == nil && !ok && patience > 0 {
		ok, err = l.TryLockContext(wait, 100*time.Millisecond)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted (%w) while waiting for another updater; nothing was changed", context.Cause(ctx))
	}
	if errors.Is(err, fs.ErrNotExist) {
		// What was waited for was an uninstall; others meet at a new file.
		return lock(ctx, path, patience)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, &BusyError{Lock: path, Holder: readHolder(path)}
	}
	if !isStillThere(l) {
		if err := l.Unlock(); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return lock(ctx, path, patience)
	}
	// Who holds it is a courtesy to the one who waits; failing to say it is no
	// reason not to work.
	_ = os.WriteFile(path, fmt.Appendf(nil, "process %d: %s, since %s\n", os.Getpid(),
		strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:min(2, len(os.Args))]...), " "),
		time.Now().UTC().Format(time.RFC3339)), 0o600)
	return func() { _ = l.Unlock() }, nil
}

// isStillThere reports whether the file that was locked has its name still.
func isStillThere(l *flock.Flock) bool {
	locked, err1 := l.Stat()
	named, err2 := os.Stat(l.Path())
	return err1 == nil && err2 == nil && os.SameFile(locked, named)
}

func readHolder(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 256))
	line, _, _ := strings.Cut(string(data), "\n")
	if line == "" {
		return "unknown"
	}
	return line
}
