package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"teleport-update/internal/folder"
	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
)

// A Database is the agent's database: a name in a folder that is held open. All work on it goes through the folder, so that it is done
// there, or not at all, even if the owner replaces the folder meanwhile.
type Database struct {
	folder  *folder.Folder
	name    string
	dataDir string         // the agent's, as it was named: the database's folder in it may be a link
	known   map[string]Sum // of backups, by their folders
}

// Open finds the folder of the agent's database at path, …/proc/sqlite.db, and holds it open until Close. The database itself need not be
// there; if its folder is missing, the error matches ErrNoDatabase. A link on the way is followed only if root made it: see package
// folder.
func Open(path string) (*Database, error) {
	dir, err := folder.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoDatabase, err)
	}
	if err != nil {
		return nil, fmt.Errorf("find the agent's database: %w", err)
	}
	return &Database{folder: dir, name: filepath.Base(path), dataDir: filepath.Dir(filepath.Dir(path))}, nil
}

// Close lets go of the folder.
func (d *Database) Close() error { return d.folder.Close() }

// Knows gives the database the result of Take for the backup in the folders, from another record: then backup.yaml, which others may have
// damaged since, is not read. The backup may have a second name in another folder.
func (d *Database) Knows(sum Sum, dirs ...string) {
	d.known = map[string]Sum{}
	for _, dir := range dirs {
		d.known[dir] = sum
	}
}

// metadata returns all that is known about the backup in dir.
func (d *Database) metadata(dir string) (metadata, error) {
	sum, ok := d.known[dir]
	if !ok || sum.CRC32C == "" {
		return readMetadata(dir)
	}
	if err := checkDir(dir); err != nil {
		return metadata{}, invalid(dir, Damaged, "cannot be relied on: %v", err)
	}
	return metadata{Sum: sum}, nil
}

// copied returns the path of the database in the backup in dir, see metadata.file.
func (d *Database) copied(dir string) (string, error) {
	r, err := d.metadata(dir)
	if err != nil {
		return "", err
	}
	return r.file(dir)
}

// Path returns the path at which the database was found, without links.
func (d *Database) Path() string { return filepath.Join(d.folder.Path(), d.name) }

// Folder returns the identity of the folder in this boot.
func (d *Database) Folder(boot string) (folder.ID, error) { return d.folder.ID(boot) }

// Removed reports whether the folder that is held open was removed. A folder that was renamed, or hidden by a mount, was not removed.
func (d *Database) Removed() bool { return d.folder.Removed() }

// Owner returns the user that the folder belongs to.
func (d *Database) Owner() (uid int, err error) {
	uid, _, err = d.folder.Owner()
	return uid, err
}

// at returns the database's path through the folder.
func (d *Database) at() string { return d.folder.At(d.name) }

// source looks the database up; ErrNoDatabase if there is no database.
func (d *Database) source() (source, error) {
	info, err := lstatOwn(d.at())
	if isNotExist(err) {
		err = ErrNoDatabase
	}
	return source{path: d.at(), info: info}, err
}

// There returns nil if the database is a file of its own, ErrNoDatabase if there is nothing, and else an error that names the thing in its
// place.
func (d *Database) There() (err error) {
	defer d.explained(&err)
	_, err = d.source()
	return err
}

// CheckUnused returns an *InUseError if a process other than this one and the ones excepted is connected to the database, or has it or one
// of its sidecars open for writing. It takes no lock, so that it can be asked while the agent runs. It skips processes that it cannot look
// at, see UsersSeen: an undoing has to restore the database all the same.
func (d *Database) CheckUnused(except []int) (err error) {
	defer d.explained(&err)
	return checkUnused(d.at(), except)
}

// UsersSeen returns an error that names a process which could have the database open and could not be looked at, unlike CheckUnused: a
// process of root's, or of the user that the database's folder belongs to.
func (d *Database) UsersSeen() error {
	owner, err := d.Owner()
	if err != nil {
		return err
	}
	return procfs.Host().Unseen(0, owner)
}

// explained replaces the database's path in an error by the path that people know.
func (d *Database) explained(err *error) {
	if *err == nil {
		return
	}
	text := d.folder.Explain((*err).Error())
	if e, ok := errors.AsType[*CorruptError](*err); ok {
		e.Path, e.Detail = d.folder.Explain(e.Path), d.folder.Explain(e.Detail)
	}
	if e, ok := errors.AsType[*InUseError](*err); ok {
		e.Path = d.folder.Explain(e.Path)
	}
	if e, ok := errors.AsType[*space.Error](*err); ok {
		e.Path = d.folder.Explain(e.Path)
	}
	if text != (*err).Error() {
		*err = &explainedError{*err, text}
	}
}

type explainedError struct {
	error
	text string
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.error }
