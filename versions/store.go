package versions

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/internal/procfs"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/versions/archive"
)

const (
	partialName  = "partial"
	originalName = "original"
	rollbackName = "rollback"
	editionName  = "edition"
	digestName   = "sha256"
	manifestName = "manifest"
	backupName   = "backup"
	binName      = archive.Programs
	etcName      = "etc"
	unitName     = archive.Unit
	agentName    = "teleport"
	updaterName  = "teleport-update"
)

// Store is the folder that holds the releases of one host.
type Store struct {
	// Dir is DATA/versions: what says that a release is here, and its database. It
	// need not exist.
	Dir string
	// Programs is where bin and etc of each release are, in a folder of the same name.
	// Empty: in Dir.
	Programs string
	// ProcDir is where running processes are looked up.
	ProcDir string
}

// NewStore returns the store in dir, an absolute path.
func NewStore(dir string) *Store {
	return &Store{Dir: filepath.Clean(dir), ProcDir: procfs.Host().Proc}
}

// apart reports whether programs have a place of their own.
func (s *Store) apart() bool { return s.Programs != "" && s.Programs != s.Dir }

// places are the folders that have a release's name in them, in the order in which
// a release is removed: without its record it is none, so that goes first.
func (s *Store) places() []string {
	if s.apart() {
		return []string{s.Dir, s.Programs}
	}
	return []string{s.Dir}
}

// treeIn is the tree of which a folder's name is known, and no more.
func (s *Store) treeIn(name string) Tree {
	t := Tree{Dir: filepath.Join(s.Dir, name)}
	if s.apart() {
		t.Programs = filepath.Join(s.Programs, name)
	}
	return t
}

// PartialDir holds downloads that were not finished and trees not published.
func (s *Store) PartialDir() string { return filepath.Join(s.Dir, partialName) }

// OriginalDir holds what stood in the place of the links before the first
// transaction.
func (s *Store) OriginalDir() string { return filepath.Join(s.Dir, originalName) }

// Release names what can be fetched.
type Release = version.Release

// folders returns the two names that a release may have on disk: the plain one
// and the one for a version that is there in another edition already.
func folders(r Release) (plain, qualified string) {
	return r.Version, r.Version + "_" + string(r.Edition)
}

// Tree is one complete release on disk.
type Tree struct {
	Dir      string // its folder, below Store.Dir
	Programs string // the folder of its bin and etc, below Store.Programs; empty: Dir
	Release  Release
	SHA256   string // of the tarball it came from, 64 lower-case hex digits
	// Origin says what it is a copy of where it came from no tarball, as in
	// "deb teleport 17.3.0"; see Adopt.
	Origin string
}

// ProgramsDir is the folder of bin and etc: what is executed, linked and measured.
func (t Tree) ProgramsDir() string { return cmp.Or(t.Programs, t.Dir) }

// UnitFile is the agent's systemd unit as the release brought it: the one for its
// edition, where it brought several.
func (t Tree) UnitFile() string {
	if fips := filepath.Join(t.ProgramsDir(), archive.FIPSUnit); t.Release.Edition.FIPS() {
		if info, err := os.Lstat(fips); err == nil && info.Mode().IsRegular() {
			return fips
		}
	}
	return filepath.Join(t.ProgramsDir(), unitName)
}

// BackupDir is where the agent's database goes when this version is left. It
// may not exist.
func (t Tree) BackupDir() string { return filepath.Join(t.Dir, backupName) }

// Binary is the path of a program of this release.
func (t Tree) Binary(name string) string { return filepath.Join(t.ProgramsDir(), binName, name) }

// Lookup finds the complete tree of a release. It reads three small files and
// proves nothing about the rest: see Tree.Verify.
func (s *Store) Lookup(r Release) (Tree, bool, error) {
	if err := r.Check(); err != nil {
		return Tree{}, false, err
	}
	plain, qualified := folders(r)
	for _, name := range []string{plain, qualified} {
		t, err := s.readTree(name)
		switch {
		case err == nil && t.Release == r:
			return t, true, nil
		case err == nil, isIncomplete(err):
		default:
			return Tree{}, false, err
		}
	}
	return Tree{}, false, nil
}

// Folder finds the folder that a release is in, whole or not; only Dir and
// Release of the tree are known.
func (s *Store) Folder(r Release) (Tree, bool, error) { return s.marked(r, r.Edition) }

// Unmarked finds a folder with a release's name of which nobody can tell the edition any
// more; only Dir and Release of the tree are known.
func (s *Store) Unmarked(r Release) (Tree, bool, error) { return s.marked(r, "") }

// marked finds a folder with a release's name and this edition.
func (s *Store) marked(r Release, edition version.Edition) (Tree, bool, error) {
	if err := r.Check(); err != nil {
		return Tree{}, false, err
	}
	plain, qualified := folders(r)
	for _, name := range []string{plain, qualified} {
		e, taken, err := editionAt(filepath.Join(s.Dir, name))
		if err != nil {
			return Tree{}, false, fmt.Errorf("look for version %s: %w", r, err)
		}
		if taken && e == edition {
			t := s.treeIn(name)
			t.Release = r
			return t, true, nil
		}
	}
	return Tree{}, false, nil
}

// incompleteError says why a folder with a release's name is not a release.
type incompleteError struct{ reason string }

func (e *incompleteError) Error() string { return e.reason }

func isIncomplete(err error) bool {
	_, ok := errors.AsType[*incompleteError](err)
	return ok
}

// readTree reads the folder of that name as a complete release. An error that
// isIncomplete means that it is none; another one that nobody can tell.
func (s *Store) readTree(name string) (Tree, error) {
	v, e, ok := parseFolder(name)
	if !ok {
		return Tree{}, &incompleteError{"not a version's name"}
	}
	dir := filepath.Join(s.Dir, name)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, &incompleteError{"not there"}
	}
	if err != nil {
		return Tree{}, fmt.Errorf("look up version %s: %w", name, err)
	}
	if !info.IsDir() {
		return Tree{}, &incompleteError{"not a folder"}
	}
	word, err := readMarker(filepath.Join(dir, editionName), 64)
	if err != nil {
		return Tree{}, err
	}
	edition, err := version.ParseEdition(word)
	if err != nil {
		return Tree{}, &incompleteError{err.Error()}
	}
	if e != "" && e != edition {
		return Tree{}, &incompleteError{"its name and its edition disagree"}
	}
	digest, err := readMarker(filepath.Join(dir, digestName), 256)
	origin := ""
	if isIncomplete(err) {
		from, other := readMarker(filepath.Join(dir, originName), 256)
		if other == nil && from != "" || other != nil && !isIncomplete(other) {
			origin, err = from, other
		}
	}
	if err != nil {
		return Tree{}, err
	}
	if origin == "" && !isDigest(digest) {
		return Tree{}, &incompleteError{"sha256 holds no digest"}
	}
	if info, err := os.Lstat(filepath.Join(dir, manifestName)); errors.Is(err, fs.ErrNotExist) {
		return Tree{}, &incompleteError{"manifest is missing"}
	} else if err != nil {
		return Tree{}, fmt.Errorf("look up version %s: %w", name, err)
	} else if !info.Mode().IsRegular() {
		return Tree{}, &incompleteError{"manifest is not a regular file"}
	}
	t := s.treeIn(name)
	t.Release, t.SHA256, t.Origin = Release{Version: v, Edition: edition}, digest, origin
	return t, nil
}

// readMarker reads a file of one word. A file that is missing, too long or not
// regular makes the folder incomplete.
func readMarker(path string, limit int64) (string, error) {
	data, err := regular.Read(path, limit, regular.NoLink)
	if _, odd := errors.AsType[*regular.OddError](err); odd {
		return "", &incompleteError{filepath.Base(path) + " was changed after it was installed"}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", &incompleteError{filepath.Base(path) + " is missing"}
	}
	return strings.TrimSuffix(string(data), "\n"), err
}

// parseFolder reads VERSION or VERSION_EDITION. The edition is empty when the
// name does not say it.
func parseFolder(name string) (string, version.Edition, bool) {
	v, word, qualified := strings.Cut(name, "_")
	if parsed, err := version.Parse(v); err != nil || parsed != v {
		return "", "", false
	}
	if !qualified {
		return v, "", true
	}
	e, err := version.ParseEdition(word)
	return v, e, err == nil
}

// isDigest reports whether s is a SHA-256 as we write it: lower-case hex.
func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}
