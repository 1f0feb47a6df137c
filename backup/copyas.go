package backup

import (
	"path/filepath"

	"teleport-update/internal/durable"
	"teleport-update/internal/version"
)

// CopyAs makes a new folder to, with the backup in from as the backup of r: that version wrote the database, and its name was not known
// when the backup was taken. After an error, the caller has to remove to.
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
