package versions

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"teleport-update/versions/archive"
)

// Tree is one complete release on disk.
type Tree struct {
	Dir      string // its folder, below Store.Dir
	Programs string // the folder of its bin and etc, below Store.Programs; empty: Dir
	Release  Release
	SHA256   string // of the tarball it came from, 64 lower-case hex digits
	// Origin names the package of a copied agent that came from no tarball, as in "deb teleport
	// 17.3.0"; see Adopt.
	Origin string
}

// ProgramsDir is the folder of bin and etc: its files are executed, linked and measured.
func (t Tree) ProgramsDir() string { return cmp.Or(t.Programs, t.Dir) }

// UnitFile is the agent's systemd unit from the release: the unit for its edition if the release
// brought several.
func (t Tree) UnitFile() string {
	if fips := filepath.Join(t.ProgramsDir(), archive.FIPSUnit); t.Release.Edition.FIPS() {
		if info, err := os.Lstat(fips); err == nil && info.Mode().IsRegular() {
			return fips
		}
	}
	return filepath.Join(t.ProgramsDir(), unitName)
}

// BackupDir holds the agent's database as this version left it. It may not exist.
func (t Tree) BackupDir() string { return filepath.Join(t.Dir, backupName) }

// Binary is the path of a program of this release.
func (t Tree) Binary(name string) string { return filepath.Join(t.ProgramsDir(), binName, name) }

// Size returns how many bytes the tree takes, without its backup.
func (t Tree) Size() (bytes int64, err error) {
	err = filepath.WalkDir(t.ProgramsDir(), func(path string, d fs.DirEntry, err error) error {
		if path == t.Programs && errors.Is(err, fs.ErrNotExist) {
			return nil // somebody removed its programs
		}
		if err != nil {
			return err
		}
		if d.IsDir() && path == t.BackupDir() {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err
}
