package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/internal/durable"
)

// A TakeRequest describes a backup and its place.
type TakeRequest struct {
	// Dir is the folder of the backup. It is made, for root only, if it does not exist. Nothing else may work in it meanwhile.
	Dir  string
	Meta Meta
	// Stopped says that the agent was stopped for this, so that nothing may be written after the copy. It is checked: if any process is
	// connected to the database or may write it, Take returns an *InUseError.
	Stopped bool
	// Progress, unless it is nil, is called every 8 MiB with the bytes that are copied and
	// the bytes of the whole, for databases above 100 MiB. The check and the sync that
	// follow take about half as long again.
	Progress func(done, total int64)
}

// Take backs up the database. If it returns no error, the backup is whole, checked, readable by root only (the file keeps the owner of the
// source) and on stable storage, and has replaced the folder's previous backup. Its sum is for a caller that must not depend on
// backup.yaml, see Knows. After an error the previous backup still stands, or, after a failure in the last steps, no backup.
//
// The errors to decide on: ErrNoDatabase; *CorruptError when no backup of this
// database is possible; *space.Error; *InUseError. It gives up when ctx ends,
// or after a time that is generous for the database's size.
func (d *Database) Take(ctx context.Context, r TakeRequest) (sum Sum, err error) {
	defer d.explained(&err)
	defer contain(&err)
	src, err := d.source()
	if err != nil {
		return sum, err
	}
	if r.Stopped {
		if err := checkUnused(src.path, nil); err != nil {
			return sum, err
		}
	}
	c, err := src.look()
	if err != nil {
		return sum, err
	}
	size := c.size + c.walSize
	limit := timeLimit(size)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()

	dir, made, err := prepareDir(r.Dir)
	if err != nil {
		return sum, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up the agent's database: %w", errors.Join(err, durable.CleanTemp(dir)))
			if made {
				_ = durable.RemoveEmpty(dir)
			}
		}
	}()
	if err := checkSpace(dir, size); err != nil {
		return sum, err
	}
	temp, err := durable.CreateTemp(filepath.Join(dir, FileName))
	if err != nil {
		return sum, err
	}
	defer temp.Close()
	rec, err := fill(ctx, src, temp, r.Progress)
	if err != nil {
		return sum, explain(ctx, err, src.path, dir)
	}
	rec.Meta = r.Meta
	owner := src.info.Sys().(*syscall.Stat_t)
	if err := temp.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return sum, err
	}
	// Last, when most of it is on the disk already: a long sync would make the
	// agent's own wait.
	if err := temp.Sync(); err != nil {
		return sum, err
	}
	if err := publish(temp.Name(), dir, rec); err != nil {
		return sum, err
	}
	return rec.Sum, nil
}

// fill makes temp a checked copy of the database.
func fill(ctx context.Context, src source, temp *os.File, progress func(done, total int64)) (metadata, error) {
	recovery := false
	err := src.read(ctx,
		func() error {
			return copyOnline(ctx, src.path, temp, progress)
		},
		func(c condition) error {
			recovery = c.unsettled()
			return copyAtRest(ctx, src.path, c, temp, progress)
		})
	if err != nil {
		return metadata{}, err
	}
	if recovery {
		if err := recoverCopy(ctx, temp.Name()); err != nil {
			return metadata{}, err
		}
	}
	var wait sync.WaitGroup
	wait.Go(func() { settle(ctx, temp) })
	problems, crc, err := examine(ctx, temp)
	wait.Wait()
	if err != nil {
		return metadata{}, err
	}
	if problems != "" {
		return metadata{}, &CorruptError{Path: src.path, Detail: problems}
	}
	info, err := temp.Stat()
	if err != nil {
		return metadata{}, err
	}
	return metadata{Sum: Sum{Size: info.Size(), CRC32C: crc}}, nil
}

// publish gives a finished copy its name. A backup.yaml never describes a database other than the one in its folder, not even for a moment.
func publish(temp, dir string, rec metadata) error {
	if err := durable.Remove(filepath.Join(dir, metaName)); err != nil {
		return err
	}
	name := filepath.Join(dir, FileName)
	// Somebody may have looked into the old copy with a tool that left these. Their removal is on stable storage with the new name.
	for _, suffix := range sidecars {
		if err := durable.UnlinkNoSync(name + suffix); err != nil {
			return err
		}
	}
	if err := durable.Replace(temp, name); err != nil {
		return err
	}
	return rec.write(dir)
}

// Size returns how many bytes of space a backup of the database may take; ErrNoDatabase if there is no database. A restore needs as much
// again beside the live database.
func (d *Database) Size() (_ int64, err error) {
	defer d.explained(&err)
	src, err := d.source()
	if err != nil {
		return 0, err
	}
	size := src.info.Size()
	if info, err := os.Lstat(src.path + "-wal"); err == nil {
		size += info.Size()
	}
	return size, nil
}

// timeLimit returns a time that a healthy host never needs: 4 MiB a second, and two minutes for locks and a disk that wakes up.
func timeLimit(size int64) time.Duration {
	return 2*time.Minute + time.Duration(size>>22)*time.Second
}

// prepareDir makes the backup folder, unless it exists, and returns its path: absolute and free of links, because SQLite is given paths in
// it.
func prepareDir(dir string) (path string, made bool, err error) {
	var st unix.Stat_t
	made = unix.Stat(dir, &st) == unix.ENOENT
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return "", false, fmt.Errorf("make the backup folder: %w", err)
	}
	if err := checkDir(dir); err != nil {
		return "", false, err
	}
	if path, err = realDir(dir); err != nil {
		return "", false, fmt.Errorf("find the backup folder: %w", err)
	}
	return path, made, durable.CleanTemp(path)
}
