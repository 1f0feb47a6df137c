package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/versions"
)

// LeavePlainFiles replaces each link of the tree in linkDir by a copy of its target, durably, so
// that the programs outlive the store. It can be repeated, even if the programs that have a place
// of their own are gone by then.
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

// Lost returns what keeps the agent of a tree from being left as plain files: links that are gone, lead nowhere or into the store, which
// goes, and whether the agent's unit is gone or empty. A program or a unit of somebody else is left out: once the store is removed,
// nothing would keep a copy.
func Lost(h *Host, tree versions.Tree) (links []state.LinkChange, unit bool, err error) {
	all, err := PlanFreeLinks(h, tree)
	if err != nil {
		return nil, false, err
	}
	for _, c := range all {
		stays, err := outlivesStore(h, c.Path, c.Before)
		if err != nil {
			return nil, false, err
		}
		if !stays {
			links = append(links, c)
		}
	}
	now, err := ReadUnit(h.Paths.Unit())
	return links, UnitLost(now), err
}

// outlivesStore reports whether the program at a path is not in the store.
func outlivesStore(h *Host, path string, now state.Before) (bool, error) {
	if now.Link == "" {
		return now.Saved != "", nil
	}
	if _, err := os.Stat(path); err != nil {
		return false, nil // it leads nowhere
	}
	ours, err := h.Store.Holds(path, now.Link)
	return !ours, err
}

// PlaceLost puts links and unit that are Lost in their places. The folder of programs may be gone, if an uninstall was cut
// off after that: then LeavePlainFiles says whether anything is missing.
func PlaceLost(h *Host, tree versions.Tree) error {
	if _, err := tree.Binaries(); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	links, unit, err := Lost(h, tree)
	if err != nil {
		return err
	}
	if err := h.Link(links); err != nil {
		return fmt.Errorf("repair the links: %w", err)
	}
	if unit {
		err = h.PlaceUnit(tree)
	}
	if err != nil {
		return fmt.Errorf("repair the agent's unit: %w", err)
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
