package versions

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
)

// LeavePlainFiles replaces each link of the tree in linkDir by a copy of what it
// leads to, durably, so that the programs outlive the store. It can be repeated.
func LeavePlainFiles(linkDir string, t Tree) error {
	links, err := t.links(linkDir)
	if err != nil {
		return err
	}
	if t.hasUpdater() {
		links[filepath.Join(linkDir, updaterName)] = t.Binary(updaterName)
	}
	paths := slices.SortedFunc(maps.Keys(links), compareNames)
	for _, path := range paths {
		target := links[path]
		if now, err := os.Readlink(path); err != nil || now != target {
			continue // somebody else has changed it
		}
		if err := copyOver(target, path); err != nil {
			return fmt.Errorf("make %s a plain file: %w", path, err)
		}
	}
	return nil
}

func copyOver(from, to string) error {
	f, _, err := regular.Open(from, regular.NoLink)
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.CopyFile(to, f, 0o755)
}

// RemoveLinks removes every link of linkDir that leads into the store, durably.
func (s *Store) RemoveLinks(linkDir string) error {
	links, err := linksInto(linkDir, s.Dir)
	if err != nil {
		return err
	}
	for _, path := range links {
		if err := durable.UnlinkNoSync(path); err != nil {
			return err
		}
	}
	if len(links) == 0 {
		return nil
	}
	return durable.SyncDir(linkDir)
}
