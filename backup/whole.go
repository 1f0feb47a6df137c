package backup

import (
	"context"
	"path/filepath"
)

// checkFile compares the database with the note about it, lets SQLite check it, and returns its path.
func (r metadata) checkFile(ctx context.Context, dir string) (string, error) {
	path, err := r.file(dir)
	if err != nil {
		return "", err
	}
	f, info, err := openCopied(path)
	if err != nil {
		return "", unusable(dir, err, "cannot be used: %v", err)
	}
	defer f.Close()
	if r.CRC32C != "" && info.Size() != r.Size {
		return "", invalid(dir, Damaged, "is damaged: %s has %d bytes, and had %d when it was made", FileName, info.Size(), r.Size)
	}
	problems, crc, err := examine(ctx, f)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", unusable(dir, err, "is damaged: %v", err)
	case problems != "":
		return "", invalid(dir, Damaged, "is damaged: %s", problems)
	case r.CRC32C != "" && crc != r.CRC32C:
		return "", invalid(dir, Damaged, "is damaged: the checksum of %s is not the one it had when it was made", FileName)
	}
	return path, nil
}

// file returns the path of the database for SQLite, after making sure that it is there and stands alone.
func (r metadata) file(dir string) (string, error) {
	real, err := realDir(dir)
	if err != nil {
		return "", err
	}
	src := source{path: filepath.Join(real, FileName), copied: true}
	switch c, err := src.look(); {
	case err == ErrNoDatabase:
		return "", invalid(dir, Incomplete, "is not complete: there is no %s", FileName)
	case err != nil:
		return "", unusable(dir, err, "cannot be used: %v", err)
	case c.unsettled():
		return "", invalid(dir, Damaged, "was written to later: a journal lies beside %s", FileName)
	}
	return src.path, nil
}
