package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/versions"
)

// LeavePlainFiles replaces each link of the tree in linkDir by a copy of what it
// leads to, durably, so that the programs outlive the store. It can be repeated, also
// when the programs that have a place of their own are gone by then.
func LeavePlainFiles(linkDir string, t versions.Tree) error {
	links, err := linksOf(t, linkDir)
	if errors.Is(err, fs.ErrNotExist) && t.Programs != "" {
		if left, linkErr := storeOf(t).LinksInto(linkDir); linkErr == nil && len(left) == 0 {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if t.HasUpdater() {
		links[filepath.Join(linkDir, UpdaterName)] = t.Binary(UpdaterName)
	}
	for _, path := range slices.SortedFunc(maps.Keys(links), compareNames) {
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

// removeLinks removes every link of linkDir that leads into the store, durably.
func removeLinks(linkDir string, s *versions.Store) error {
	links, err := s.LinksInto(linkDir)
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
