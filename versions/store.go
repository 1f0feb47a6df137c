package versions

import (
	"path/filepath"

	"teleport-update/internal/procfs"
)

// Store is the folder that holds the releases of one host.
type Store struct {
	// Dir is DATA/versions: the records of releases, and the agent's databases. It need not exist.
	Dir string
	// Programs has bin and etc of each release, in a folder of the release's name. Empty: they are in
	// Dir.
	Programs string
	// ProcDir is the proc file system in which running processes are looked up.
	ProcDir string
}

// NewStore returns the store in dir, an absolute path.
func NewStore(dir string) *Store {
	return &Store{Dir: filepath.Clean(dir), ProcDir: procfs.Host().Proc}
}

// apart reports whether programs have a place of their own.
func (s *Store) apart() bool { return s.Programs != "" && s.Programs != s.Dir }

// places returns the folders that hold parts of a release, in the order of its removal: without
// its record it is no release, so that goes first.
func (s *Store) places() []string {
	if s.apart() {
		return []string{s.Dir, s.Programs}
	}
	return []string{s.Dir}
}

// treeIn returns a tree with nothing but its folders.
func (s *Store) treeIn(name string) Tree {
	t := Tree{Dir: filepath.Join(s.Dir, name)}
	if s.apart() {
		t.Programs = filepath.Join(s.Programs, name)
	}
	return t
}

// PartialDir holds downloads that were not finished and trees not published.
func (s *Store) PartialDir() string { return filepath.Join(s.Dir, partialName) }

// OriginalDir holds the files that the links replaced in the first transaction.
func (s *Store) OriginalDir() string { return filepath.Join(s.Dir, originalName) }
