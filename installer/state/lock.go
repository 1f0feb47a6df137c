package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
)

// LockPatience is how long a person's command waits for another one to finish; the
// timer's does not wait, its next run is near.
const LockPatience = 60 * time.Second

// BusyError says that another updater holds a lock. Nothing was changed.
type BusyError struct {
	Holder string // as far as the holder named itself
}

func (e *BusyError) Error() string {
	return failure.Unchanged("another updater is at work (%s)", e.Holder).To("try again when it is done").Error()
}

// Lock takes the lock at path and returns its release. The kernel drops the
// lock when the process ends, however it ends; the file stays until the updater
// is uninstalled.
func Lock(ctx context.Context, path string, patience time.Duration) (unlock func(), err error) {
	return LockNotify(ctx, path, patience, func(string) {})
}

// LockNotify is Lock, and calls waits with the holder of the lock before it waits.
func LockNotify(ctx context.Context, path string, patience time.Duration, waits func(holder string)) (unlock func(), err error) {
	if err := prepareStore(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// A pipe or a link must not be taken for a lock, nor waited for.
	l := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK))
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ok, err := l.TryLock()
	if err == nil && !ok && patience > 0 {
		waits(readHolder(path))
		ok, err = l.TryLockContext(wait, 100*time.Millisecond)
	}
	if ctx.Err() != nil {
		return nil, failure.Unchanged("interrupted (%w) while waiting for another updater", context.Cause(ctx))
	}
	if errors.Is(err, fs.ErrNotExist) {
		// The wait was for an uninstall; others meet at a new file.
		return LockNotify(ctx, path, patience, waits)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, cannotLock(path, err)
	}
	if !ok {
		return nil, &BusyError{Holder: readHolder(path)}
	}
	if info, err := l.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cannotLock(path, errors.New("it is not a regular file")), l.Unlock())
	}
	if !isStillThere(l) {
		if err := l.Unlock(); err != nil {
			return nil, cannotLock(path, err)
		}
		return LockNotify(ctx, path, patience, waits)
	}
	writeHolder(path)
	return func() { _ = l.Unlock() }, nil
}

// writeHolder writes down who holds a lock. That is a courtesy to a process that waits, and a
// failure does not matter. The file is not emptied first: ext4 would begin to write it to the disk
// at once.
func writeHolder(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	n, err := fmt.Fprintf(f, "process %d: %s %s, since %s\n", os.Getpid(),
		filepath.Base(os.Args[0]), verb(os.Args), time.Now().UTC().Format(time.RFC3339))
	if info, statErr := f.Stat(); errors.Join(err, statErr) == nil && info.Size() > int64(n) {
		_ = f.Truncate(int64(n))
	}
}

// verb returns the command of a command line: flags of the whole program, and their values, may
// stand before it.
func verb(args []string) string {
	for n := 1; n < len(args); n++ {
		if !strings.HasPrefix(args[n], "-") {
			return args[n]
		}
		if !strings.Contains(args[n], "=") && strings.TrimLeft(args[n], "-") != "debug" {
			n++
		}
	}
	return ""
}

// prepareStore makes the folder that the locks and all state are in. When run as
// root, nobody else may make names in it or exchange it: they could have root
// write through a link of theirs, or run a version of theirs.
func prepareStore(dir string) error {
	if err := CheckStore(dir); err != nil {
		return err
	}
	if err := makeStore(dir); err != nil {
		return failure.Unchanged("make %s: %w", dir, err)
	}
	return CheckStore(dir)
}

// CheckStore returns why root does not keep programs and records in a folder, see trust.Path: every change is refused then.
func CheckStore(dir string) error {
	err := trust.Path(dir)
	switch {
	case err == nil:
		return nil
	case trust.Blind(err):
		return failure.Unchanged("whether %s can be relied on cannot be told: %w", dir, err).To("remove the cause, then run the command again")
	}
	return failure.Unchanged("%s cannot be relied on: %w", dir, err).To("%s", wayOut(dir))
}

// wayOut says how the data folder of a store becomes one that root can keep programs and records in. To give the folder of an
// agent's user to root alone would leave the agent without its data. A folder that has the store, with the records and the
// program of the timer, stays where it is.
func wayOut(store string) string {
	dataDir := filepath.Dir(store)
	info, err := os.Stat(dataDir)
	if err != nil || trust.Ours(info) {
		return "check its content, then make it writable by root only"
	}
	if _, err := os.Lstat(filepath.Join(store, "updates.yaml")); err == nil {
		return fmt.Sprintf("somebody gave the folder away after the first enable: check its content, then `chown root: %s %s` gives it back. An "+
			"agent that is to run as another user needs a data_dir of its own", dataDir, store)
	}
	return fmt.Sprintf("give the agent, which runs as another user, a data folder of its own: stop it, `mv %[1]s %[1]s-agent`, "+
		"set data_dir to "+
		"%[1]s-agent in the agent's configuration and start it; or have the agent run as root. `chown` alone would keep the agent from its data",
		dataDir)
}

// makeStore makes the store, and its data folder if that is missing: for root only, as Teleport's
// packages have it, since the agent writes files into it whose modes would let others read them.
func makeStore(dir string) error {
	data := filepath.Dir(dir)
	if _, err := os.Lstat(data); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MkdirAll(filepath.Dir(data), 0o755); err != nil {
			return err
		}
		if err := durable.MkdirAll(data, 0o700); err != nil {
			return err
		}
	}
	return durable.MkdirAll(dir, 0o755)
}

func cannotLock(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return failure.Unchanged("lock %s: %w", path, err).To("look at that file and remove it")
}

// isStillThere reports whether the file that was locked has its name still.
func isStillThere(l *flock.Flock) bool {
	locked, err1 := l.Stat()
	named, err2 := os.Lstat(l.Path())
	return err1 == nil && err2 == nil && os.SameFile(locked, named)
}

func readHolder(path string) string {
	data, err := regular.Read(path, 4<<10, regular.NoLink)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	// A run that only looks whether there is anything to do does not write its name: then the file
	// names the holder before it.
	var pid int
	if _, err := fmt.Sscanf(line, "process %d:", &pid); err == nil && unix.Kill(pid, 0) == unix.ESRCH {
		return "unknown"
	}
	return cmp.Or(line, "unknown")
}
