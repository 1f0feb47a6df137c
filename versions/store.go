package versions

import (
	"path/filepath"

	"teleport-update/internal/procfs"
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
