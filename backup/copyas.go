package backup

import (
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
)

// CopyAs makes a new folder to, with the backup in from as the one of a version that wrote
// the database, and whose name was not known when it was taken. After an error, to is for
// the caller to remove.
func CopyAs(from, to string, r version.Release) error {
	rec, err := readMetadata(from)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := durable.CloneFile(filepath.Join(from, FileName), filepath.Join(to, FileName)); err != nil {
		return err
	}
	rec.Version, rec.Edition = r.Version, r.Edition
	return rec.write(to)
}
