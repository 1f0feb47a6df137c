package backup

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"teleport-update/internal/folder"
)

// vfsName is SQLite's name for folderVFS.
const vfsName = "folder"

func init() { vfs.Register(vfsName, folderVFS{vfs.Find("").(vfs.VFSFilename)}) }

// folderVFS has SQLite work in a folder that is held open, by paths of folder.Folder.At, and nowhere else. SQLite makes the names of a
// journal, a WAL and its index by appending to the database's name; the driver's own VFS would first resolve the path, and then follow it
// wherever its owner leads it. Another name in a database or a journal (a super-journal, which SQLite reads and removes) is not touched.
type folderVFS struct{ vfs.VFSFilename }

// FullPathname leaves the path as it is.
func (folderVFS) FullPathname(path string) (string, error) { return path, inFolder(path) }

// Delete removes a journal or a WAL.
func (v folderVFS) Delete(path string, syncDir bool) error {
	if err := inFolder(path); err != nil {
		return err
	}
	return v.VFSFilename.Delete(path, syncDir)
}

// Access reports whether a file is there.
func (v folderVFS) Access(path string, flags vfs.AccessFlag) (bool, error) {
	if err := inFolder(path); err != nil {
		return false, err
	}
	return v.VFSFilename.Access(path, flags)
}

// OpenFilename opens a file, and makes sure that the name is its only one: a user who may write the folder could have given somebody else's
// file that name. A new file gets the database's mode and owner, because the owner has to open it.
func (v folderVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name == nil {
		return v.VFSFilename.OpenFilename(name, flags) // a temporary file without a name
	}
	path := name.String()
	if err := inFolder(path); err != nil {
		return nil, flags, err
	}
	_, err := os.Lstat(path)
	fresh := isNotExist(err)
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	if err = settleFile(f, path, name.Database(), fresh); err != nil {
		f.Close()
		return nil, flags, vfs.SystemError(err, sqlite3.CANTOPEN)
	}
	return f, flags, nil
}

func inFolder(path string) error {
	if !folder.IsAt(path) {
		return vfs.SystemError(fmt.Errorf("%.80q is not in the folder of the database", path), sqlite3.CANTOPEN)
	}
	return nil
}

// settleFile checks a file that was opened under a name, before anything is read or
// written, and gives a new one its owner and mode.
func settleFile(f vfs.File, path, database string, fresh bool) error {
	file, ok := f.(interface {
		Stat() (fs.FileInfo, error)
		Chown(uid, gid int) error
		Chmod(fs.FileMode) error
	})
	if !ok {
		return fmt.Errorf("the driver of SQLite has no file for %s", path)
	}
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	// One look at the name shows both that it leads to this file and that the file has no other name: two looks could be deceived by a name
	// that comes and goes.
	named, err := lstatOwn(path)
	if err != nil || !os.SameFile(opened, named) {
		return fmt.Errorf("%s was replaced: %v", path, err)
	}
	if !fresh {
		return nil
	}
	like, err := lstatOwn(database)
	if err != nil {
		return err
	}
	owner := like.Sys().(*syscall.Stat_t)
	if err := file.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return file.Chmod(like.Mode().Perm())
}
